"""How a run ended: the run if it succeeded, else an error that has it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.contract.terminal import visible
from pipelines.client.errors import RunInterrupted
from pipelines.client.run import Run

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.runs.runs import RunResult

SAME = "the same code"
CONTINUE = f"run {SAME} to continue; finished work is kept"


class RunFailed(PosttrainError):
    """A stage failed. The message has each stage's error, and what to do next."""

    def __init__(self, message: str, run: Run, failures: dict[str, str]) -> None:
        self.run, self.failures = run, failures
        """The run as far as it came, and stage -> error."""
        super().__init__(message)


class ApprovalNeeded(PosttrainError):
    """A stage waits for a person: approve it by `error.run.approve(stage)`, and the same call goes on."""

    def __init__(self, message: str, run: Run) -> None:
        self.run = run
        super().__init__(message)


def succeeded(store: Store, result: RunResult) -> Run:
    """Return a run that succeeded; raise for any other end."""
    from pipelines.runs.summary import next_steps

    found = Run(result.run_id, store=store.uri)
    if result.status == "stopped":
        raise RunInterrupted(f"run {result.run_id} is stopped; {CONTINUE}")
    steps = next_steps(store, result, same=SAME)
    if result.status == "waiting":
        raise ApprovalNeeded("\n".join([f"run {result.run_id} waits for a person", *steps]), found)
    if result.status != "succeeded":
        failures = [f"{name} failed: {error}" for name, error in result.failures.items()]
        lines = [f"run {result.run_id}: {result.status}", *failures, *steps]
        raise RunFailed(visible("\n".join(lines)), found, result.failures)
    for what, problem in (("report", result.report_problem), ("lineage in MLflow", result.lineage_problem)):
        if problem and problem != "POSTTRAIN_LINEAGE=later":
            warnings.warn(f"run {result.run_id} has no {what} yet: {problem}", stacklevel=4)
    return found
