"""One attempt at one job in a forked process: relays its events, enforces its timeout, reports how it ended.

Processes come from a fork server that has imported the heavy libraries once, so a stage starts in milliseconds
instead of the seconds that importing torch takes.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.forkserver
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event
from typing import Any

from components.contract.job import Job
from components.runtime.process import FAILED, REFUSED, run_forked

POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0
DEAF = "pipelines.engines.deaf"
SHOWN_OF_A_LOG = 300
"""Characters of a log's last line in a message; the whole log is named beside it."""


@dataclass(frozen=True)
class Ended:
    """How an attempt ended."""

    code: int
    error: str | None = None
    """One message for people; None on success."""
    retryable: bool = False
    silent: bool = False
    """Whether the process ended without recording its failure: it was killed, or ran out of time."""


def preload(modules: Iterable[str]) -> None:
    """Name what the fork server imports before it forks; takes effect if no job has started yet."""
    multiprocessing.get_context("forkserver").set_forkserver_preload([DEAF, *sorted(modules)])


def run_attempt(
    job: Job, log: Path, environment: dict[str, str], on_event: Callable[[dict[str, Any]], None], stop: Event
) -> Ended:
    """Run one attempt to its end; kills it when `stop` is set or its timeout passes."""
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=run_forked, args=(job.model_dump_json(), sender, str(log), environment), name=job.stage, daemon=True
    )
    process.start()
    sender.close()
    deadline = time.monotonic() + job.timeout_seconds if job.timeout_seconds else None
    failure: str | None = None
    finished = False
    while True:
        if stop.is_set():
            _end(process)
            return Ended(130, "stopped", retryable=False)
        if deadline and time.monotonic() > deadline:
            _end(process)
            return Ended(124, f"took longer than its timeout of {job.timeout_seconds:g} s", retryable=True, silent=True)
        if not receiver.poll(POLL_SECONDS):
            continue
        try:
            event = json.loads(receiver.recv_bytes())
        except EOFError:
            break
        failure = event["error"] if event["event"] == "failed" else failure
        finished = finished or event["event"] == "finished"
        on_event(event)
    process.join()
    return _ended(process.exitcode or 0, finished, failure, log)


def _ended(code: int, finished: bool, failure: str | None, log: Path) -> Ended:
    if code == 0 and finished:  # a component may end its process with code 0 before it is done
        return Ended(0)
    silent = failure is None
    if failure is None:
        last = _last_line(log)
        failure = f"its process {_cause(code)}; log: {log}" + (f"; last line: {last}" if last else "")
    return Ended(code or FAILED, failure, retryable=code != REFUSED, silent=silent)


def _cause(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} before the stage was done"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " (by a person, or by the system when memory ran out)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def _last_line(log: Path) -> str:
    """Return the end of a log as one printable line: a stage may have printed anything, terminal codes included."""
    if not log.exists():  # it was killed before it could open one
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4 * SHOWN_OF_A_LOG))
        lines = stream.read().decode(errors="replace").split("\n")
    filled = [line.strip() for line in lines if line.strip()]
    text = "".join(character if character.isprintable() else "?" for character in filled[-1]) if filled else ""
    return text if len(text) <= SHOWN_OF_A_LOG else f"{text[:SHOWN_OF_A_LOG]}..."


def _end(process: BaseProcess) -> None:
    """End a job: it is resumable at any instant, so the polite signal is only for its own children's sake."""
    process.terminate()
    process.join(GRACE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
