"""The job of a stage for a task of another orchestrator, before and after the work itself."""

from __future__ import annotations

import time
from contextlib import suppress

from components.contract.errors import InputError, PosttrainError
from components.contract.job import Job, OnFailure
from components.runtime.checkpoints.moves import asked
from components.runtime.costs.attempts import note_end
from components.runtime.job.asking import Question
from components.runtime.job.launch import Launch
from components.runtime.job.progress import Sink
from components.runtime.ledger.records import failure_key, load_job, run_key
from components.runtime.lineage.spool import NO_FINGERPRINT, Spool
from components.runtime.store import Store


def find_job(store: Store, run_id: str, stage: str) -> Job | None:
    """Return a stage's job; None where the run's parameters leave the stage out.

    Raises InputError if the store does not know the run.
    """
    job = load_job(store, run_id, stage)
    if job is None and store.get(run_key(run_id)) is None:
        raise InputError(f"run {run_id} is not in {store.uri}: its first task writes it there")
    return job


def is_settled(job: Job, store: Store, sink: Sink) -> bool:
    """Return whether nothing needs to run: the stage is done, cached, or its `when` does not hold.

    A cached stage that asks a person is settled once it is approved.
    """
    return Launch(job, sink, store=store).reuse(here=False) is not None


def question_of(job: Job, store: Store, sink: Sink) -> Question | None:
    """Return what a person is asked before a stage that is not settled; None if it asks nobody."""
    return Launch(job, sink, store=store).question()


def tries_of(retries: int, on_failure: OnFailure) -> int:
    """Return how often an orchestrator starts a stage's task at most.

    One that the run can go on without gets one start more: if its last try was lost with its node, that settles it.
    """
    return retries + 1 + (on_failure == "skip")


def record_death(store: Store, run_id: str, stage: str, message: str, sink: Sink) -> str:
    """Record the failure of a stage that could not record it itself; return the record's message.

    A URI's content may be large and remote, so it is not fetched for a fingerprint.
    """
    if asked(store, run_id):  # what ends since its run moves has not failed
        return message
    job = load_job(store, run_id, stage)
    if job is not None:
        with suppress(PosttrainError):  # what it depends on is incomplete or damaged
            launch = Launch(job, sink, store=store)
            if not launch.upstream.imports():
                return launch.record_death(message)
    note_end(store, run_id, stage, "killed")
    record = {"run_id": run_id, "stage": stage, "fingerprint": NO_FINGERPRINT, "error": message, "time": time.time()}
    store.put(failure_key(run_id, stage), record, overwrite=True)
    Spool(store, run_id).stage_failed(stage, None, message)
    return message
