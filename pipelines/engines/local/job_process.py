"""One attempt at one job in a forked process: relays its events, enforces its timeout, reports how it ended.

Processes come from a fork server that has imported the heavy libraries once, so a stage starts in milliseconds
instead of the seconds that importing torch takes.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event, Lock

from components.contract.job import Job
from components.runtime.job.process import run_forked
from pipelines.engines.local.fork_server import JobProcess, JobServer
from pipelines.engines.shared.attempt import Ended, Events, Limit, OnEvent, last_line, timed_out

POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0
_SERVER = JobServer()
_CHILDREN = Lock()
"""Held to start and to reap: starting in one thread polls all children, and if two threads read one exit status, one
gets nothing and reports exit code 255."""


def preload(modules: Iterable[str], environment: Mapping[str, str], cheap: Iterable[str] = ()) -> None:
    """Prepare for the jobs of a run: what they import, slow or `cheap`, and the variables of their processes."""
    with _CHILDREN:
        _SERVER.preload(modules, environment, cheap)


def run_attempt(job: Job, log: Path, environment: dict[str, str], on_event: OnEvent, stop: Event) -> Ended:
    """Run one attempt to its end; kills it when `stop` is set or its timeout passes, counted from when it is ready."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with _CHILDREN:
        process = _SERVER.start(run_forked, (job.model_dump_json(), sender, str(log)), environment, name=job.stage)
    sender.close()
    limit = Limit(job.timeout_seconds)
    events = Events(on_event, limit)
    while True:
        if stop.is_set():
            _end(process)
            return Ended(130, "stopped", retryable=False)
        if limit.is_over:
            _end(process)
            return timed_out(limit.seconds)
        if not receiver.poll(POLL_SECONDS):
            continue
        try:
            events.take(json.loads(receiver.recv_bytes()))
        except EOFError:
            break
    with _CHILDREN:
        process.join()
    return events.ended(process.exitcode or 0, last_line=last_line(log), log=str(log))


def _end(process: JobProcess) -> None:
    """End a job: it is resumable at any instant, so SIGTERM is only for the sake of its children."""
    process.terminate()
    with _CHILDREN:
        process.join(GRACE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
