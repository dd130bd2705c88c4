"""Approvals on the local engine: a record in the store that a person writes, here or from another terminal."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from components.contract.job import Job
from components.runtime.ledger.notices import tell_question
from components.runtime.ledger.records import approval_key, asked_key

if TYPE_CHECKING:
    from components.runtime.store import Store

REJECTED = "rejected by a person or by its time limit; that stands, and a new run asks again"
"""Message of a rejected approval in a run that cannot wait here."""


class Decision(Enum):
    """State of a stage's approval."""

    APPROVED = auto()
    REJECTED = auto()
    WAITING = auto()


def record_decision(store: Store, run_id: str, stage: str, *, approved: bool, by: str | None = None) -> bool:
    """Write a person's decision; returns False if an earlier decision exists, which stands."""
    record = {"approved": approved, "by": by or getpass.getuser(), "time": time.time()}
    return store.put(approval_key(run_id, stage), record)


def decide(job: Job, store: Store, ask: Callable[[Job], bool | None]) -> Decision:
    """Return the decision on `job`: recorded, obtained now, or made by its time limit."""
    if job.approve is None:
        return Decision.APPROVED
    if store.put(asked_key(job.run_id, job.stage), {"message": job.approve.message, "time": time.time()}):
        tell_question(store, job)
    recorded = store.recover(approval_key(job.run_id, job.stage))
    if recorded is None:
        answer = ask(job)
        if answer is not None:
            record_decision(store, job.run_id, job.stage, approved=answer)
        elif (deadline := due(job, store)) is not None and time.time() > deadline:
            record_decision(store, job.run_id, job.stage, approved=job.approve.on_timeout == "approve", by="time limit")
        recorded = store.recover(approval_key(job.run_id, job.stage))
    if recorded is None:
        return Decision.WAITING
    return Decision.APPROVED if recorded["approved"] else Decision.REJECTED


def due(job: Job, store: Store) -> float | None:
    """Return when the time limit of an open question decides, in seconds since the epoch; None without one."""
    limit = job.approve.timeout_seconds if job.approve else None
    asked = store.recover(asked_key(job.run_id, job.stage))
    return None if limit is None or asked is None else asked["time"] + limit
