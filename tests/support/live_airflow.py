"""`posttrain airflow up` as a process of its own, its REST interface, and the processes below it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.runtime.system.parent import children_of
from pipelines.engines.airflow.client import Account, Client
from pipelines.engines.airflow.deployment import Deployment
from pipelines.engines.shared.launcher import stage_python

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 1800.0
READY = "log in as"


@dataclass
class Live:
    """An Airflow beside a store of the test's own."""

    folder: Path
    environment: dict[str, str]
    seconds: float = 0.0
    """How long its last start took until it said that it is healthy."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it says that it is healthy."""
        began = time.monotonic()
        log = self.folder / "up.log"
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                self.command("airflow", "up"),
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(lambda: READY in log.read_text() or self.process.poll() is not None, "a healthy Airflow")
        assert self.process.poll() is None, log.read_text()
        self.seconds = time.monotonic() - began

    def stop(self) -> int:
        """End it as a service manager would; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_SECONDS)

    @property
    def guard(self) -> int:
        """Return the process that keeps the services."""
        assert self.process is not None
        [pid] = children_of(self.process.pid)
        return pid

    @property
    def client(self) -> Client:
        """Return a session with the Airflow that runs now."""
        return Client(Account.read(Deployment(self.folder / "airflow"), {}))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of `posttrain`."""
        return [stage_python(), "-m", "pipelines.cli", *arguments]

    def run(self, *arguments: str, code: int = 0) -> tuple[Any, str]:
        """Run a recipe in Airflow to its end; return its `show --json` and what was said on stderr."""
        command = self.command("run", *arguments, "--engine", "airflow", "--json")
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout) if done.stdout else None, done.stderr

    def local(self, store: Path, *arguments: str) -> Any:
        """Run a recipe by the local engine in another store; return its `show --json`."""
        environment = {**self.environment, "POSTTRAIN_STORE": str(store), "POSTTRAIN_LINEAGE": "later"}
        command = self.command("run", *arguments, "--json")
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def show(self, run_id: str) -> Any:
        """Return `show --json` of a run."""
        command = self.command("show", run_id, "--json")
        return json.loads(subprocess.check_output(command, cwd=ROOT, env=self.environment, text=True))

    def trigger(self, dag: str, **conf: Any) -> str:
        """Start a run and return the path of it in the REST interface."""
        run = self.client.post(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return f"dags/{dag}/dagRuns/{run['dag_run_id']}"

    def state(self, path: str, task: str | None = None) -> str | None:
        """Return the state of a run, or of one of its tasks."""
        return self.client.get(path if task is None else f"{path}/taskInstances/{task}")["state"]

    def wait(self, path: str, *states: str, task: str | None = None) -> str | None:
        """Wait until a run, or a task of it, is in one of some states."""
        until(lambda: self.state(path, task) in states, f"{path} {task or ''} {states}")
        return self.state(path, task)

    def answer(self, path: str, task: str, option: str) -> str | None:
        """Answer a question whenever it is asked, until the run has ended; return the run's state.

        Airflow may lose an answer that comes too soon, and then asks again (see `_OWN_RETRIES` of the DAG).
        """
        detail = f"{path}/taskInstances/{task}/-1/hitlDetails"

        def ended() -> bool:
            if self.state(path, task) == "awaiting_input" and not self.client.get(detail)["response_received"]:
                self.client.patch(detail, {"chosen_options": [option], "params_input": {}})
            return self.state(path) in ("success", "failed")

        until(ended, f"{path} answered by {option}")
        return self.state(path)

    def processes(self) -> dict[int, str]:
        """Return pid -> command line of all processes that belong to this Airflow."""
        mark = f"AIRFLOW_HOME={self.folder / 'airflow'}".encode()
        marked = {pid: line for pid, line in _processes() if mark in _read(pid, "environ").split(b"\0")}
        store = f"--store {self.folder / 'store'}"
        return marked | {pid: line for pid, line in _processes() if store in line and "runtime.process" in line}

    def stages(self, stage: str) -> list[int]:
        """Return the processes of a stage that work for this Airflow."""
        return [
            pid
            for pid, line in self.processes().items()
            if "components.runtime.job.process" in line and f"--stage {stage} " in f"{line} "
        ]


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until something holds that another process brings about."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {LIMIT_SECONDS:.0f} s: {what}"
        time.sleep(0.2)


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(_read(pid, "stat").rpartition(b")")[2].split()[1])


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid != os.getpid() and (line := _read(pid, "cmdline")):
            yield pid, line.replace(b"\0", b" ").decode(errors="replace").strip()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it ended meanwhile
        return b""
