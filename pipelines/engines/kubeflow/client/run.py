"""One run of a recipe's pipeline on Kubeflow, as the follower sees it. Imports no kfp.

Kubeflow says which tasks run and how the run as a whole stands; the ledger says what failed, and what asks a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.contract.job import Job
from components.runtime.ledger.approvals import open_question
from components.runtime.ledger.records import asked_key, failure_key
from components.runtime.store import Store
from pipelines.engines.driver.record import read as driver_record
from pipelines.engines.driver.waiting import waiting
from pipelines.engines.kubeflow.client.api import Client, RunState
from pipelines.engines.kubeflow.client.rest import NotFound, NotNow, Refused
from pipelines.engines.kubeflow.ending import close
from pipelines.engines.kubeflow.names import parts_place, run_key, task_name
from pipelines.engines.shared.approvals import record_decision
from pipelines.engines.shared.follower import ASKING, BLOCKED, FAILED, RETRYING, RUNNING, Snapshot, StageState


class KubeflowRun:
    """A run of a pipeline, seen through Kubeflow's API and the ledger."""

    name = "Kubeflow"
    stops = True

    def __init__(self, jobs: Sequence[Job], store: Store, client: Client, kubeflow_run: str) -> None:
        self._jobs, self._store, self._client, self._run = jobs, store, client, kubeflow_run
        self._run_id: str | None = None
        self._failures: dict[str, list[float]] = {}
        self._state = RunState("PENDING", "", frozenset())
        self._succeeded: set[str] = set()

    @property
    def page(self) -> str:
        """Return the run's page."""
        return self._client.page(self._run)

    def look(self) -> Snapshot:
        """Return the run now; raise InputError if its first task refused it, PosttrainError if it never began."""
        self._state = state = self._seen()
        self._run_id = self._run_id or self._begun(state)
        if self._run_id is None:
            return Snapshot(None)
        places = (f"ledger/{self._run_id}/failures/", f"approvals/{self._run_id}/")
        failed, asked = (set(self._store.keys(place)) for place in places)
        states = {job.stage: self._stage(job, state, failed, asked) for job in self._jobs}
        known = {stage: found for stage, found in states.items() if found is not None}
        return Snapshot(self._run_id, known, state.final)

    def answer(self, stage: str, *, approved: bool) -> None:
        """Record the approval or rejection of a stage, where its task looks for it."""
        assert self._run_id is not None
        record_decision(self._store, self._run_id, stage, approved=approved)

    def stop(self) -> None:
        """Stop the run on Kubeflow, and the runs of its parts, whose tasks may be gone."""
        parts = self._parts()
        with suppress(NotNow) if parts else nullcontext():
            self._client.terminate(self._run)
        for part in parts:
            if (state := self._part(part)) and not state.final:
                with suppress(NotFound, NotNow):
                    self._client.terminate(part)

    def close(self) -> str:
        """End a run that was cut off with its last task, and return its status."""
        assert self._run_id is not None
        return close(self._store, self._run_id, self._state.state, self._state.error)

    def _seen(self) -> RunState:
        """Return how the run stands, with the runs of its parts: it goes on while one of them does."""
        try:
            whole = self._client.state(self._run)
            parts = [state for part in self._parts() if (state := self._part(part))]
        except Refused as error:
            raise Refused(f"{error}; the run goes on, and the same command follows it again: {self.page}") from None
        word = "RUNNING" if whole.final and not all(part.final for part in parts) else whole.state
        return RunState(word, whole.error, whole.running.union(*(part.running for part in parts)))

    def _parts(self) -> list[str]:
        """Return Kubeflow's ids of the parts' runs that may go on."""
        known = (self._store.get(key) or {} for key in self._store.keys(parts_place(self._run)))
        return [entry["run_id"] for entry in known if entry and entry["run_id"] not in self._succeeded]

    def _part(self, part: str) -> RunState | None:
        """Return how a part's run stands; None for one that is gone."""
        try:
            state = self._client.state(part)
        except NotFound:
            return None
        if state.state == "SUCCEEDED":
            self._succeeded.add(part)
        return state

    def _begun(self, state: RunState) -> str | None:
        """Return the run's id in the ledger, once its first task has written it."""
        known: dict[str, Any] = self._store.get(run_key(self._run)) or {}
        if "refused" in known:
            raise InputError(known["refused"])
        if state.final and "run_id" not in known:
            said = f": {state.error}" if state.error else ""
            raise PosttrainError(
                f"Kubeflow's run is {state.state} before its first task wrote anything to {self._store.uri}{said}; "
                f"can its pods reach that store? {self.page}"
            )
        return known.get("run_id")

    def _stage(self, job: Job, state: RunState, failed: set[str], asked: set[str]) -> StageState | None:
        assert self._run_id is not None
        run, stage = self._run_id, job.stage
        if failure_key(run, stage) in failed and (found := self._failure(job, state)):
            return found
        if asked_key(run, stage) in asked and open_question(self._store.get, run, stage):
            return StageState(ASKING)
        if task_name(stage) in state.running:
            return StageState(RUNNING, note=waiting(self._store, run, stage).text)
        return StageState(BLOCKED) if state.final else None

    def _failure(self, job: Job, state: RunState) -> StageState | None:
        """Return what a failure in the ledger means: another attempt, while some are left; None if it was known."""
        assert self._run_id is not None
        record = self._store.get(failure_key(self._run_id, job.stage))
        if record is None:
            return None
        times = self._failures.setdefault(job.stage, [])
        new = record["time"] not in times
        if new:
            times.append(record["time"])
        tries = driver_record(self._store, self._run_id, job.stage)
        if state.final or tries.final:
            return StageState(FAILED)
        return StageState(RETRYING, len(times), job.retry.pause_before(len(times))) if new else None
