"""The server's process: how each of its ends is told, and that none of its processes outlives the stage."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.contract.errors import StageFailed
from components.serve.server import process as process_module
from components.serve.server.commands import Serving
from components.serve.server.process import ServerProcess, free_port
from tests.stages.serve.standing_in import command

ROOT = Path(__file__).parents[3]
HOLDS = """
import sys
from pathlib import Path
from tests.stages.serve.test_process import server
folder = Path(sys.argv[1])
with server(folder, sys.argv[2]):
    (folder / "up").touch()
    import time
    time.sleep(3600)
"""


def server(folder: Path, mode: str, *, start_seconds: float = 60.0) -> ServerProcess:
    serving = Serving(folder, "posttrain-1234", "the-key", "float32", 64, 4)
    made = command(mode, folder / "journal")
    return ServerProcess(serving, lambda port: made(serving, port), folder / "log", start_seconds=start_seconds)


def processes(folder: Path) -> list[int]:
    told = json.loads((folder / "journal").read_text().splitlines()[0])
    return [told["server"], told["child"]]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, [pid for pid in pids if is_running(pid)]
        time.sleep(0.05)


def test_a_server_that_dies_at_its_start_tells_its_last_lines_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(StageFailed) as error, server(tmp_path, "dies-at-start"):
        pass
    told = "exit code 1; its last lines: torch.OutOfMemoryError: CUDA out of memory"
    assert str(error.value) == f"the server ended before it was healthy: {told}"
    assert time.monotonic() - began < 30


def test_a_server_that_never_gets_healthy_is_bounded_and_stopped(tmp_path: Path) -> None:
    made = server(tmp_path, "never-healthy", start_seconds=1.5)
    with (
        pytest.raises(StageFailed, match=r"not healthy within 1.5 s \(start_timeout_seconds\): it is still running"),
        made,
    ):
        pass
    assert not made.alive
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", made.port)) != 0


def test_a_server_that_asks_for_no_key_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="answers without its key"), server(tmp_path, "open"):
        pass


def test_a_port_that_another_program_takes_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = iter([port, free_port()])
        monkeypatch.setattr(process_module, "free_port", lambda: next(ports))
        with server(tmp_path, "well") as made:
            assert made.alive and made.port != port
        monkeypatch.setattr(process_module, "free_port", lambda: port)
        with pytest.raises(StageFailed, match="Address already in use"), server(tmp_path, "well"):
            pass


def test_a_foreign_server_on_the_port_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is healthy and serves a model: of another name."""
    serving = Serving(tmp_path, "another", "other-key", "float32", 64, 4)
    made = command("open", tmp_path / "foreign")
    port = free_port()
    foreign = made(serving, port)
    with subprocess.Popen(foreign.words, env=foreign.environment) as running:
        try:
            while process_module._get(port, "/health", None)[0] != 200:
                time.sleep(0.05)
            ports = iter([port, free_port()])
            monkeypatch.setattr(process_module, "free_port", lambda: next(ports))
            with server(tmp_path, "well") as ours:
                assert ours.port != port
        finally:
            running.kill()


@pytest.mark.parametrize("mode", ["children", "stubborn"])
def test_all_processes_end_with_the_context(mode: str, tmp_path: Path) -> None:
    with server(tmp_path, mode):
        pids = processes(tmp_path)
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))  # gone when it returns, not some time later


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_killed_stage(number: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path), "stubborn"], env=environment) as stage:
        deadline = time.monotonic() + 120
        while not (tmp_path / "up").exists():
            assert stage.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        pids = processes(tmp_path)
        assert all(map(is_running, pids))
        stage.send_signal(number)
        stage.wait()
    wait_until_gone(pids)


def test_a_killed_guard_takes_the_server_with_it(tmp_path: Path) -> None:
    with server(tmp_path, "children") as made:
        pid, child = processes(tmp_path)
        assert made._process is not None
        os.kill(made._process.pid, signal.SIGKILL)
        wait_until_gone([pid])
        assert not made.alive
        os.kill(child, signal.SIGKILL)
