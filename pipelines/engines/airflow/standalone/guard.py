"""Supervises a local Airflow's services: starts them, restarts one that dies, and ends them all. Imports no Airflow.

    python -m pipelines.engines.airflow.standalone.guard --airflow PYTHON --stages PYTHON --logs FOLDER --parent PID

It leads its own session, so that Ctrl-C reaches it only through its parent, in an order that lets running tasks report
that they were stopped. Orphans of its services become its children, and are ended with them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from components.runtime.system.parent import adopt_orphans, children_of, die_with_parent
from pipelines.engines.airflow.names import MLFLOW_PORT
from pipelines.runs.delivering import LINEAGE

POLL_SECONDS = 0.2
RESTART_SECONDS = 1.0
LATE_RESTART_SECONDS = 30.0
MAX_RESTARTS = 5
WITHIN_SECONDS = 120.0
"""A service that dies more often than that in this time is broken, and restarting does not help."""
TASKS_GRACE_SECONDS = 15.0
SERVICE_GRACE_SECONDS = 10.0
SCHEDULER = "scheduler"
PRELOADED = "pipelines.engines.airflow.standalone.scheduler"
"""Runs it with what its tasks import."""
LATE = signal.SIGUSR1
"""Starts services that need Airflow to be up."""


@dataclass
class Service:
    """A process that must always run."""

    name: str
    command: list[str]
    late: bool = False
    """Whether it is optional: it starts once Airflow is up, and Airflow works without it."""
    pid: int | None = None
    started: deque[float] = field(default_factory=deque)
    due: float = 0.0


class Guard:
    """The parent of all services."""

    def __init__(self, services: Iterable[Service], logs: Path) -> None:
        self._services = {service.name: service for service in services}
        self._logs = logs
        self._stop = False
        self._late = False

    def run(self) -> int:
        """Keep the services running until SIGTERM; the exit code is 1 if one keeps failing."""
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        signal.signal(LATE, self._on_late)
        broken = None
        while not self._stop and broken is None:
            for service in self._services.values():
                if service.pid is None and service.due <= time.monotonic() and (self._late or not service.late):
                    self._start(service)
            self._reap()
            broken = next((service for service in self._services.values() if _broken(service)), None)
            time.sleep(POLL_SECONDS)
        if broken is not None:
            print(f"posttrain: {broken.name} died {MAX_RESTARTS + 1} times; see {self._log(broken)}", file=sys.stderr)
        self._end()
        return 0 if broken is None else 1

    def _on_stop(self, *_: object) -> None:
        self._stop = True

    def _on_late(self, *_: object) -> None:
        self._late = True

    def _log(self, service: Service) -> Path:
        return self._logs / f"{service.name}.log"

    def _start(self, service: Service) -> None:
        with self._log(service).open("ab") as log:
            process = subprocess.Popen(
                service.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_guard,  # this process has one thread
            )
        service.pid = process.pid
        service.started.append(time.monotonic())

    def _reap(self) -> None:
        """Reap ended processes; restart a service and end its orphans."""
        with suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                for service in self._services.values():
                    if service.pid == pid:
                        service.pid = None
                        service.due = time.monotonic() + (LATE_RESTART_SECONDS if service.late else RESTART_SECONDS)
                        self._kill_orphans()

    def _kill_orphans(self) -> None:
        own = {service.pid for service in self._services.values()}
        for pid in children_of(os.getpid()):
            if pid not in own:
                _signal(pid, signal.SIGKILL)

    def _end(self) -> None:
        """End the tasks, then the scheduler, while the API still accepts their reports; then all the rest."""
        scheduler = self._services.get(SCHEDULER)
        if scheduler is not None and scheduler.pid is not None:
            for pid in children_of(scheduler.pid):
                _signal(pid, signal.SIGTERM)
            _signal(scheduler.pid, signal.SIGTERM)
            self._wait([scheduler], TASKS_GRACE_SECONDS)
        rest = [service for service in self._services.values() if service.pid is not None]
        for service in rest:
            assert service.pid is not None
            _signal(service.pid, signal.SIGTERM)
        self._wait(rest, SERVICE_GRACE_SECONDS)
        while children := children_of(os.getpid()):
            for pid in children:
                _signal(pid, signal.SIGKILL)
            self._reap()
            time.sleep(POLL_SECONDS)

    def _wait(self, services: list[Service], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(service.pid is not None for service in services) and time.monotonic() < deadline:
            self._reap()
            time.sleep(POLL_SECONDS)


def airflow_services(airflow: str, stages: str, environ: Mapping[str, str] = os.environ) -> list[Service]:
    """Return the services of Airflow, and those that bring lineage to MLflow and show it, unless that is for later.

    Logs are read as files, so nobody serves them.
    """
    commands = {
        "api-server": ["api-server"],
        "dag-processor": ["dag-processor"],
        "triggerer": ["triggerer", "--skip-serve-logs"],
    }
    services = [Service(name, [airflow, "-m", "airflow", *command]) for name, command in commands.items()]
    services.append(Service(SCHEDULER, [airflow, "-m", PRELOADED, "--skip-serve-logs"]))
    if environ.get(LINEAGE, "live") == "later":
        return services
    polite = ["nice", "-n", "5", stages, "-m"]
    services.append(Service("lineage", [*polite, "components.runtime.lineage.delivery.watch"], late=True))
    if port := environ.get(MLFLOW_PORT):
        services.append(Service("mlflow", [*polite, "pipelines.cli", "ui", "--port", port], late=True))
    return services


def _broken(service: Service) -> bool:
    while service.started and service.started[0] < time.monotonic() - WITHIN_SECONDS:
        service.started.popleft()
    return not service.late and service.pid is None and len(service.started) > MAX_RESTARTS


def _end_with_guard() -> None:
    die_with_parent(signal.SIGTERM)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> int:
    """Supervise the services that the command line names."""
    parser = argparse.ArgumentParser(description="Supervise the services of a local Airflow.")
    parser.add_argument("--airflow", required=True, metavar="PYTHON")
    parser.add_argument("--stages", required=True, metavar="PYTHON")
    parser.add_argument("--logs", required=True, type=Path)
    parser.add_argument("--parent", required=True, type=int)
    arguments = parser.parse_args()
    die_with_parent(signal.SIGTERM)
    if os.getppid() != arguments.parent:
        return 1
    adopt_orphans()
    return Guard(airflow_services(arguments.airflow, arguments.stages), arguments.logs).run()


if __name__ == "__main__":
    sys.exit(main())
