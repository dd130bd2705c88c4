"""Shows a run on Kubeflow from the ledger, which is the truth, and from what Kubeflow says of the run as a whole."""

from __future__ import annotations

import sys
import time
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.runtime.ledger.records import approval_key, end_key, failure_key, stage_key
from components.runtime.store import Store
from pipelines.engines.kubeflow.client import Client, KubeflowUnavailable, RunState
from pipelines.engines.kubeflow.ending import close
from pipelines.engines.kubeflow.names import run_key, task_name
from pipelines.engines.shared.approvals import record_decision
from pipelines.plan.plan import Plan
from pipelines.runs.view import RunView

POLL_SECONDS = 2.0
AWAY_SECONDS = 120.0
"""How long Kubeflow may be away before following ends; the run itself goes on."""
STOP_SECONDS = 120.0
"""How long a run that was told to stop may take for it."""


class Follower:
    """Follows one run; ends with every state that Kubeflow ends a run in."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        client: Client,
        view: RunView,
        kubeflow_run: str,
        *,
        ended_before: dict[str, Any] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """`ended_before` is the end of a run that goes on, from its last time."""
        self._plan, self._store, self._client, self._view = plan, store, client, view
        self._run, self._before, self._pause = kubeflow_run, ended_before, poll_seconds
        self._begun = False
        self._told: dict[str, str] = {}
        self._failures: dict[str, list[float]] = {}
        self._asked: set[str] = set()

    def follow(self) -> tuple[str, str]:
        """Return the run's id in the ledger and how it ended; Ctrl-C stops the run on Kubeflow, too."""
        try:
            return self._follow(None)
        except KeyboardInterrupt:
            print(f"posttrain: stopping {self._client.page(self._run)}", file=sys.stderr)
            self._client.terminate(self._run)
            return self._follow(time.monotonic() + STOP_SECONDS)

    def _follow(self, deadline: float | None) -> tuple[str, str]:
        away: float | None = None
        while True:
            try:
                state = self._client.state(self._run)
                away = None
            except KubeflowUnavailable:
                away = away or time.monotonic()
                if time.monotonic() - away > AWAY_SECONDS:
                    raise
                time.sleep(self._pause)
                continue
            self._begin(state)
            if self._begun:
                self._show(state)
            if state.final:
                return self._plan.run_id, self._end(state)
            if self._begun and deadline is None and self._waits():
                return self._plan.run_id, "waiting"
            if deadline is not None and time.monotonic() > deadline:
                raise PosttrainError(f"the run was told to stop, and has not: {self._client.page(self._run)}")
            time.sleep(self._pause)

    def _begin(self, state: RunState) -> None:
        """Find the run's id in the ledger; raise InputError if its first task refused the run."""
        if self._begun:
            return
        known = self._store.get(run_key(self._run)) or {}
        if "refused" in known:
            raise InputError(known["refused"])
        if "run_id" in known:
            self._plan = self._plan.with_run_id(known["run_id"])
            self._begun = True
        elif state.final:
            said = f": {state.error}" if state.error else ""
            raise PosttrainError(
                f"Kubeflow's run is {state.state} before its first task wrote anything to {self._store.uri}{said}; "
                f"can its pods reach that store? {self._client.page(self._run)}"
            )

    def _show(self, state: RunState) -> None:
        """Tell the view what is new of each stage."""
        run = self._plan.run_id
        places = (f"ledger/{run}/stages/", f"ledger/{run}/failures/", f"approvals/{run}/")
        done, failed, asked = (set(self._store.keys(place)) for place in places)
        for job in self._plan.jobs:
            stage = job.stage
            if self._told.get(stage) == "done":
                continue
            if stage_key(run, stage) in done:
                self._tell_done(stage)
            elif failure_key(run, stage) in failed and self._tell_failure(job, state):
                continue
            elif approval_key(run, f"{stage}.asked") in asked and approval_key(run, stage) not in asked:
                self._tell(stage, "approval", run_id=run)
            elif task_name(stage) in state.running:
                self._tell(stage, "started", resumed_from=None)
            elif state.final and self._told.get(stage) != "failed":
                self._tell(stage, "blocked")

    def _tell_done(self, stage: str) -> None:
        entry = self._store.get(stage_key(self._plan.run_id, stage)) or {}
        self._tell(stage, "finished", **{name: entry[name] for name in ("status", "cache", "metrics", "seconds")})
        self._told[stage] = "done"

    def _tell_failure(self, job: Any, state: RunState) -> bool:
        """Tell of a failure, which is a retry while attempts are left; return whether it was new or is the last."""
        record = self._store.get(failure_key(self._plan.run_id, job.stage))
        if record is None:
            return False
        times = self._failures.setdefault(job.stage, [])
        new = record["time"] not in times
        if new:
            times.append(record["time"])
        if state.final or len(times) > job.retry.retries:
            self._tell(job.stage, "failed", error=record["error"])
            return True
        if new:
            self._told.pop(job.stage, None)
            pause = job.retry.backoff_seconds * 2 ** (len(times) - 1)
            self._tell(job.stage, "retry", attempt=len(times), seconds=pause, error=record["error"])
        return new

    def _tell(self, stage: str, event: str, **facts: Any) -> None:
        if self._told.get(stage) != event:
            self._told[stage] = event
            self._view.event({"event": event, "stage": stage, "time": time.time(), **facts})

    def _waits(self) -> bool:
        """Ask here, if somebody is here; return whether nothing goes on but the waiting for a person."""
        held = {job.stage for job in self._plan.jobs if self._told.get(job.stage) == "approval"}
        for job in self._plan.jobs:
            if job.stage in held and job.stage not in self._asked:
                self._asked.add(job.stage)
                answer = self._view.ask(job)
                if answer is not None:
                    record_decision(self._store, self._plan.run_id, job.stage, approved=answer)
                    return False
        behind = set(held)
        for job in self._plan.jobs:  # in the order of the graph
            if behind & set(job.after):
                behind.add(job.stage)
        busy = [job.stage for job in self._plan.jobs if job.stage not in behind and self._told.get(job.stage) != "done"]
        return bool(held) and not busy

    def _end(self, state: RunState) -> str:
        """Return how the run ended by the ledger; one that was cut off with its last task is ended here."""
        end = self._store.get(end_key(self._plan.run_id))
        if end is None or end == self._before:
            return close(self._store, self._plan.run_id, state.state, state.error)
        return end["status"]
