"""What checkpoints add to the fingerprint of a job: a plan and the job itself must add the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.runtime.checkpoints import forks, rollback

if TYPE_CHECKING:
    from components.contract.component import Component
    from components.contract.job import Job
    from components.runtime.ledger.fingerprint import Fingerprint
    from components.runtime.store import Store


def marked(store: Store, job: Job, component: Component, own: Fingerprint) -> Fingerprint:
    """Return the fingerprint of a job, given that of its work: alarms may return it, and it may begin as a fork."""
    mark = rollback.mark_of(job, component, own)
    return forks.mark_of(store, job.fork, job.stage, mark) if job.fork else mark
