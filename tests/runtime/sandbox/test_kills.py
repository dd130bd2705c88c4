"""Our process is killed at random instants: nothing of its sandbox is left, and the answers afterwards are the same."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.runtime.sandbox.fork_server import ForkServer
from components.runtime.sandbox.launch import launch

TREE = Path(__file__).resolve().parents[3]
GONE_SECONDS = 60.0


@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_kill_9_leaves_no_process_of_the_sandbox(backend, tmp_path, kills):
    mark = tmp_path / f"kills-{os.getpid()}-{backend}" / "site-packages"
    mark.mkdir(parents=True)
    began = time.monotonic()
    expected = finish(start(mark))
    whole = time.monotonic() - began
    draws = random.Random(7)
    for _ in range(kills):
        process = start(mark)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draws.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until_gone(mark)
    assert finish(start(mark)) == expected
    wait_until_gone(mark)
    assert list(mark.parent.iterdir()) == [mark]  # no scratch folder of a killed process either


def test_kill_9_while_bubblewrap_starts_leaves_none_that_waits_for_ever(backend, tmp_path):
    if not backend.startswith("bubblewrap"):
        pytest.skip("the other backend starts no program of its own")
    mark = tmp_path / f"starts-{os.getpid()}" / "site-packages"
    mark.mkdir(parents=True)
    for thirds in range(12):  # of a millisecond: bubblewrap takes some to say which process it started
        process = start(mark, "tests.runtime.sandbox.killed_at_start", str(thirds / 3000))
        assert process.wait(timeout=120) == -signal.SIGKILL
    wait_until_gone(mark)


def start(mark: Path, module: str = "tests.runtime.sandbox.killed", *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", module, str(mark), *arguments]
    environment = {**os.environ, "TMPDIR": str(mark.parent)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TREE, env=environment)


def finish(process: subprocess.Popen) -> str:
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return printed.split()[-1]


def wait_until_gone(mark: Path) -> None:
    """Fail when a process with the mark in its command is still there."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := marked(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def marked(mark: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if str(mark).encode() in command:
            found.append(f"{entry.parent.name}: {command[:80]!r}")
    return found


def test_the_first_process_inside_is_known_and_ends_with_stop(backend):
    if not backend.startswith("bubblewrap"):
        pytest.skip("the other backend's server is our own child")
    for _ in range(6):  # bubblewrap tells of it in several pieces, which arrive as they like
        server = ForkServer(launch(backend, (), ()))
        server.load([])
        assert server._inside is not None
        watched = os.dup(server._inside)
        server.stop()
        assert select.select([watched], [], [], 0)[0], "a descriptor of a process is ready once it has ended"
        os.close(watched)
