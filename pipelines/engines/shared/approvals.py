"""Approvals on every engine: a record in the store that a person writes, here or from another terminal."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from components.contract.job import Job
from components.runtime.job.asking import Question, seen_so_far
from components.runtime.ledger import approvals
from components.runtime.ledger.notices import tell_question
from components.runtime.ledger.records import asked_key

if TYPE_CHECKING:
    from components.runtime.store import Store

REJECTED = "rejected by a person or by its time limit; that stands, and a new run asks again"
"""Message of a rejected approval in a run that cannot wait here."""
TIME_LIMIT = "time limit"
"""Who decided where nobody did in time."""


class Decision(Enum):
    """State of a stage's approval."""

    APPROVED = auto()
    REJECTED = auto()
    WAITING = auto()


def record_decision(store: Store, run_id: str, stage: str, *, approved: bool, by: str | None = None) -> bool:
    """Write a person's decision; returns False if an earlier one on the same inputs exists, which stands."""
    return approvals.record_decision(store, run_id, stage, approved=approved, by=by or getpass.getuser())


def decide(question: Question | None, store: Store, ask: Callable[[Job], bool | None]) -> Decision:
    """Return the decision on a job's question: recorded, obtained now, or made by its time limit."""
    if question is None or question.job.approve is None:
        return Decision.APPROVED
    job, limit = question.job, question.job.approve
    _pose(question, store)
    recorded = approvals.decision_on(store.recover, job.run_id, job.stage)
    if recorded is None:
        answer = ask(job)
        if answer is not None:
            record_decision(store, job.run_id, job.stage, approved=answer)
        elif (deadline := due(job, store)) is not None and time.time() > deadline:
            record_decision(store, job.run_id, job.stage, approved=limit.on_timeout == "approve", by=TIME_LIMIT)
        recorded = approvals.decision_on(store.recover, job.run_id, job.stage)
    if recorded is None:
        return Decision.WAITING
    return Decision.APPROVED if recorded["approved"] else Decision.REJECTED


def _pose(question: Question, store: Store) -> None:
    """Put a question on record with what there is to see, unless it was asked about the same inputs before."""
    job = question.job
    assert job.approve is not None
    key = asked_key(job.run_id, job.stage)
    asked = store.recover(key)
    if asked is not None and asked.get("inputs") == question.inputs:
        return
    record = {"message": job.approve.message, "time": time.time(), "inputs": question.inputs}
    if store.put(key, record | {"seen": seen_so_far(store, job)}, overwrite=asked is not None):
        tell_question(store, job, again=asked is not None)


def due(job: Job, store: Store) -> float | None:
    """Return when the time limit of an open question decides, in seconds since the epoch; None without one."""
    limit = job.approve.timeout_seconds if job.approve else None
    asked = store.recover(asked_key(job.run_id, job.stage))
    return None if limit is None or asked is None else asked["time"] + limit
