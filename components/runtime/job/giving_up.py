"""Giving up on a stage: after its last attempt the run goes on without it, where the recipe says so."""

from __future__ import annotations

from contextlib import suppress

from components.contract.errors import PosttrainError
from components.contract.job import Job
from components.runtime.checkpoints.moves import asked
from components.runtime.costs.attempts import attempts_of
from components.runtime.costs.spending import Spending
from components.runtime.inputs.settle import settle_in_run
from components.runtime.job.closing import Closing
from components.runtime.job.progress import Progress, Sink
from components.runtime.ledger.records import stage_key
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store


def give_up(job: Job, store: Store, sink: Sink, reason: str) -> bool:
    """Close a job that has failed for good if its run goes on without it; return whether it does.

    The engine calls this after the last attempt; `reason` is for one that could not record its failure.
    """
    if job.on_failure != "skip" or _left(job, store) or Spending(store, job).is_over():
        return False
    if store.get(stage_key(job.run_id, job.stage)):  # it ended after all, and its process died before it could tell
        return True
    with suppress(PosttrainError):  # a stage that decides about it is missing: it is shown as planned
        job = settle_in_run(job, store).job
    Closing(job, store, Spool(store, job.run_id), Progress(job.stage, sink)).left_out(reason)
    return True


def _left(job: Job, store: Store) -> bool:
    """Return whether a job ended since its run moves, which is no failure, even if the move was taken back since."""
    tried = attempts_of(store, job.run_id, job.stage)[0].get(job.stage, ())
    return asked(store, job.run_id) is not None or bool(tried and tried[-1].end == "stopped")
