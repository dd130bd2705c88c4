"""Tries of a stage that a run goes on without: Kubeflow tells a pod not which try it is, so the ledger's attempts do.

A pod that was lost with its node cannot close its stage; one try more than the recipe has does it then.
"""

from __future__ import annotations

from components.runtime.costs.attempts import attempts_of
from components.runtime.job.giving_up import give_up
from components.runtime.job.process import REFUSED
from components.runtime.job.progress import text_lines
from pipelines.engines.kubeflow.stage_run import StageRun

LOST = "its last try was lost with its pod"


def used_up(run: StageRun) -> bool:
    """Close a stage whose tries all ended in lost pods if the run goes on without it; return whether it does."""
    return _all_tried(run) and _goes_on(run, LOST)


def goes_on(run: StageRun, code: int) -> bool:
    """Close a stage after a failed try if that was the last and the run goes on; return whether it does.

    `code` is the try's exit code.
    """
    return (code == REFUSED or _all_tried(run)) and _goes_on(run, "its process failed")


def _goes_on(run: StageRun, reason: str) -> bool:
    assert run.job is not None
    return give_up(run.job, run.store, text_lines(), reason)


def _all_tried(run: StageRun) -> bool:
    """Return whether as many attempts began as the recipe has tries; a retry of the whole run has as many again."""
    assert run.job is not None
    begun = len(attempts_of(run.store, run.run_id, run.stage)[0].get(run.stage, ()))
    return begun > 0 and begun % (run.job.retry.retries + 1) == 0
