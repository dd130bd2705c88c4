"""The world outside that hostile programs try to reach: listeners, a store, a process, secrets; what they did to it."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[3]


class World:
    """Everything is our own and goes away with `close`."""

    def __init__(self, most_processes: int) -> None:
        self._most_processes = most_processes
        self.token = secrets.token_hex(16)
        self.reached: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="escape-world-")
        root = Path(self._folder.name)
        self.store, self.outer = root / "store", root / "outer"
        self.store.mkdir()
        self.outer.mkdir(mode=0o777)
        self.file = self.store / "secret"
        self.file.write_text(self.token)
        self._listen(root)
        self._before = self._state()
        self.victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self._victim_before = self._victim_state()
        os.environ["ESCAPE_TOKEN"] = self.token
        self.descriptor = os.open(self.file, os.O_RDWR)
        os.set_inheritable(self.descriptor, True)

    def describe(self, marker: str) -> dict[str, Any]:
        """Return what a program is told; everything but the token."""
        return {
            "marker": marker,
            "parent": os.getpid(),
            "victim": self.victim.pid,
            "store": str(self.store),
            "file": str(self.file),
            "outer": str(self.outer),
            "home": str(Path.home()),
            "tree": str(TREE),
            "descriptor": self.descriptor,
            "most_processes": self._most_processes,
            **self._addresses,
        }

    def harm(self) -> list[str]:
        """Return what has been reached or changed."""
        found = list(self.reached)
        if self._state() != self._before:
            found.append(f"files changed: {self._state()}")
        if self.victim.poll() is not None:
            found.append("the other process ended")
        elif self._victim_state() != self._victim_before:
            found.append(f"the other process changed: {self._victim_state()}")
        return found

    def close(self) -> None:
        """End the listeners and the process, and remove the files."""
        os.environ.pop("ESCAPE_TOKEN", None)
        os.close(self.descriptor)
        self.victim.kill()
        self.victim.wait()
        for listener in self._listeners:
            listener.close()
        self._folder.cleanup()

    def _listen(self, root: Path) -> None:
        name = f"escape-{secrets.token_hex(4)}"
        tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        path.bind(str(root / "socket"))
        abstract.bind(f"\0{name}")
        datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagram.bind(f"\0{name}-datagram")
        self._addresses = {
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": str(root / "socket"),
            "abstract": name,
            "datagram": f"{name}-datagram",
        }
        self._listeners = [tcp, udp, path, abstract, datagram]
        for listener in self._listeners:
            stream = listener.type == socket.SOCK_STREAM
            if stream:
                listener.listen()
            threading.Thread(target=self._wait, args=(listener, stream), daemon=True).start()

    def _wait(self, listener: socket.socket, stream: bool) -> None:
        try:
            listener.accept() if stream else listener.recv(100)
        except OSError:
            return
        self.reached.append(f"somebody reached {listener}")

    def _state(self) -> list[tuple[Any, ...]]:
        found = []
        for path in sorted(self.store.parent.rglob("*")):
            info = path.lstat()
            content = path.read_text() if path.is_file() else ""
            found.append((path.name, info.st_mode, info.st_uid, info.st_size, info.st_mtime_ns, info.st_nlink, content))
        return found

    def _victim_state(self) -> tuple[str, ...]:
        status = Path(f"/proc/{self.victim.pid}/status").read_text().splitlines()
        stopped = [line for line in status if line.startswith("State:") and "(t" in line.lower()]
        tracer = [line for line in status if line.startswith(("TracerPid:", "Cpus_allowed:"))]
        limits = Path(f"/proc/{self.victim.pid}/limits").read_text()
        nice = Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()[16]
        return (*stopped, *tracer, limits, nice)


def processes_named(name: str) -> list[int]:
    """Return the processes of this machine whose name is this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            if entry.read_text().strip() == name:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
