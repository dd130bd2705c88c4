"""Drives a stage in this process's own container, by the same rules as on the cluster."""

from __future__ import annotations

from collections.abc import Callable

from components.contract.terminal import print_error, visible_line
from components.runtime.job.process import FAILED, REFUSED
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.record import Book
from pipelines.engines.driver.rules import pause_after
from pipelines.engines.driver.stage import DrivenStage

PROCESS = "process"
LOST = "its last try was lost with its pod"


def drive_here(
    run: DrivenStage, launch: Callable[[], int], *, retried: bool = False, clock: Clock | None = None
) -> int:
    """Return the exit code of a stage: `launch` runs it once, and records how it died if it could not do so itself.

    A try that has not ended was lost with its container. `retried` is as of `Driver.drive`.
    """
    assert run.job is not None
    clock = clock or Clock()
    book = Book(run.store, run.run_id, run.stage, clock.now)
    if not run.done() and (code := book.enter(retried=retried)) is not None:
        print_error(f"stage {run.stage!r}: its tries have ended: {book.last_error}")
        return code
    code = FAILED
    if book.record.open is not None:
        book.end(Cause.NODE_LOST, LOST)
    while (pause := _pause(book, run)) is not None:
        clock.sleep(pause)
        book.begin(f"{PROCESS} {len(book.record.tries)}", PROCESS)
        code = launch()
        failure = run.failure()
        error = visible_line(failure["error"]) if failure else f"exit code {code}"
        cause = Cause.DONE if code == 0 else Cause.REFUSED if code == REFUSED else Cause.FAILED
        book.end(cause, "" if code == 0 else error)
        if code == 0:
            book.finish(0)
            return 0
    if run.give_up(book.last_error):
        book.finish(0)
        return 0
    book.finish(code)
    return code


def _pause(book: Book, run: DrivenStage) -> float | None:
    """Return how long to wait before the next try, None if there is none."""
    assert run.job is not None
    causes = book.record.causes
    return pause_after(causes, run.job.retry, spot=False) if causes else 0.0
