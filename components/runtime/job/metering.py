"""The meter of an attempt: its record in the store, kept up to date by a thread until the attempt ends."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.runtime.costs.attempts import Attempt, End, new_name, next_sign, put_attempt
from components.runtime.system.usage import cpu_seconds, process_age

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store

WAITED = "POSTTRAIN_WAITED_SECONDS"
"""Environment variable by which an engine tells how long the job waited for its node or its cores."""


class Meter:
    """Measures an attempt within its context, or until `end` says how it ended. What the store refuses fails no job."""

    def __init__(self, store: Store, job: Job, *, processes: int, own_process: bool) -> None:
        """`own_process`: this process is for this job alone, so what it took before, such as imports, counts, too."""
        age = process_age() if own_process else 0.0
        self._store, self._began = store, time.monotonic() - age
        self._cpu_before = 0.0 if own_process else cpu_seconds()
        started = datetime.now(UTC) - timedelta(seconds=age)
        resources = job.resources
        self._attempt = Attempt(
            run_id=job.run_id,
            stage=job.stage,
            attempt=new_name(started),
            started=started,
            seconds=age,
            cpu_seconds=0.0,
            waited_seconds=_waited() if own_process else None,
            pool=resources.pool,
            nodes=resources.nodes,
            processes=processes,
            gpus=resources.gpus * resources.nodes,
            cpus=resources.cpus * resources.nodes,
        )
        self._over, self._writing = Event(), Lock()

    def __enter__(self) -> Meter:
        self._write("running")
        Thread(target=self._show_life, name="posttrain-meter", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end("failed" if kind else "succeeded")

    def end(self, end: End) -> None:
        """Write how the attempt ended; only the first call does."""
        if not self._over.is_set():
            self._over.set()
            self._write(end)

    def _show_life(self) -> None:
        while not self._over.wait(next_sign(time.monotonic() - self._began)):
            self._write("running")

    def _write(self, end: End) -> None:
        with self._writing:
            if end == "running" and self._over.is_set():
                return
            now = {
                "seconds": round(time.monotonic() - self._began, 3),
                "cpu_seconds": round(max(0.0, cpu_seconds() - self._cpu_before), 3),
                "end": end,
            }
            with suppress(PosttrainError, OSError):
                put_attempt(self._store, self._attempt.model_copy(update=now))


def _waited() -> float | None:
    with suppress(ValueError):
        return max(0.0, float(os.environ[WAITED])) if WAITED in os.environ else None
    return None
