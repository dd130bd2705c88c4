"""What all engines must say of a recipe in the same way, so that they can be compared stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from components.contract.job import Approval, Job
from pipelines.plan.plan import Plan


@dataclass(frozen=True)
class StageShape:
    """One stage as an engine orders it."""

    after: frozenset[str]
    """Stages that must have ended first."""
    retries: int
    pause_seconds: float
    """Before the first retry; it doubles each time."""
    longest_pause_seconds: float
    timeout_seconds: float | None
    pool: str
    approve: Approval | None
    job: dict[str, Any]
    """What the launcher is given, without run and store."""


def job_shape(job: Job) -> dict[str, Any]:
    """Return a job without what differs from run to run."""
    return job.model_dump(mode="json", exclude={"run_id", "store"})


def plan_shape(plan: Plan) -> dict[str, StageShape]:
    """Return the shape of every stage, as the local engine runs it."""
    return {
        job.stage: StageShape(
            after=frozenset(job.after),
            retries=job.retry.retries,
            pause_seconds=job.retry.backoff_seconds,
            longest_pause_seconds=job.retry.max_backoff_seconds,
            timeout_seconds=job.timeout_seconds,
            pool=job.resources.pool,
            approve=job.approve,
            job=job_shape(job),
        )
        for job in plan.jobs
    }
