"""A PostgreSQL of the test's own, with a password, on an address that containers reach."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 60
UNPRIVILEGED = 65534
AS_ANOTHER: dict[str, Any] = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
"""PostgreSQL refuses to run as root."""


@contextmanager
def serving_postgres(host: str, *, user: str, password: str) -> Iterator[int]:
    """Serve an empty cluster whose database has the user's name, until the end of the block; yield the port."""
    with tempfile.TemporaryDirectory() as name:  # the test's own folder is closed to other users
        folder = Path(name)
        shutil.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
        data = _made(folder, host, user, password)
        port = _free_port(host)
        command = [_program("postgres"), "-D", str(data), "-h", host, "-p", str(port), "-k", name]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, **AS_ANOTHER, cwd=name, stdout=log, stderr=log)
        try:
            _create(server, ["-h", host, "-p", str(port), "-U", user, user], password, folder / "log")
            yield port
        finally:
            server.send_signal(signal.SIGINT)  # SIGTERM waits for clients, which may be gone unnoticed
            server.wait()


def _made(folder: Path, host: str, user: str, password: str) -> Path:
    secret, data = folder / "password", folder / "data"
    secret.write_text(password)
    command = [_program("initdb"), "--pgdata", str(data), "--username", user, "--auth", "scram-sha-256"]
    subprocess.run([*command, "--pwfile", str(secret)], **AS_ANOTHER, cwd="/", check=True, capture_output=True)
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all {user} {host}/16 scram-sha-256\n")
    return data


def _create(server: subprocess.Popen[bytes], arguments: list[str], password: str, log: Path) -> None:
    """Create the database as soon as the server answers."""
    environment = {**os.environ, "PGPASSWORD": password}
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run([_program("createdb"), *arguments], env=environment, capture_output=True).returncode:
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)


def _free_port(host: str) -> int:
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


def _program(name: str) -> str:
    """Return where a program is: Debian keeps the server's own apart, by version."""
    found = [*sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), shutil.which(name)]
    return next(path for path in found if path)
