"""A stage of a run as its driver sees it: the job in the store, whether anything has to run, and how it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from components.contract.job import Job
from components.runtime.job.asking import Question
from components.runtime.job.giving_up import give_up
from components.runtime.job.progress import text_lines
from components.runtime.ledger.approvals import decision_on
from components.runtime.ledger.records import Cause as FailureCause
from components.runtime.ledger.records import failure_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.shared.stage_job import find_job, is_settled, question_of, record_death


@dataclass(frozen=True)
class DrivenStage:
    """One stage of one run; `job` is None where the run's parameters leave the stage out."""

    store: Store
    run_id: str
    stage: str
    job: Job | None

    @classmethod
    def find(cls, store_uri: str, run_id: str, stage: str) -> Self:
        """Return it; raise InputError if the store does not know the run."""
        store = open_store(store_uri)
        job = find_job(store, run_id, stage)
        if job is None:
            print(f"the parameters of run {run_id} leave {stage!r} out", flush=True)
        return cls(store, run_id, stage, job)

    def settled(self) -> bool:
        """Return whether nothing has to run: the stage is left out, done, cached, or its `when` does not hold."""
        return self.job is None or is_settled(self.job, self.store, text_lines())

    def done(self) -> bool:
        """Return whether the ledger says that the stage has ended."""
        return self.store.get(stage_key(self.run_id, self.stage)) is not None

    def question(self) -> Question | None:
        """Return what a person is asked before the stage, which is not settled; None if it asks nobody."""
        return None if self.job is None else question_of(self.job, self.store, text_lines())

    def rejected(self) -> bool:
        """Return whether a person has rejected the stage."""
        if self.job is None or self.job.approve is None:
            return False
        decision = decision_on(self.store.get, self.run_id, self.stage)
        return decision is not None and not decision["approved"]

    def failure(self) -> dict[str, Any] | None:
        """Return the ledger's record of the last failure."""
        return self.store.get(failure_key(self.run_id, self.stage))

    def record_death(self, message: str) -> str:
        """Record a failure that the stage's process could not record itself; return the record's message."""
        return record_death(self.store, self.run_id, self.stage, message, text_lines())

    def give_up(self, reason: str) -> bool:
        """Close a stage that has failed for good if the run goes on without it; return whether it does."""
        return self.job is not None and give_up(self.job, self.store, text_lines(), reason)


def refuses(failure: dict[str, Any] | None) -> bool:
    """Return whether a recorded failure is one that a retry does not change."""
    return failure is not None and failure.get("cause") in (FailureCause.REFUSED, FailureCause.SPENT, FailureCause.CODE)
