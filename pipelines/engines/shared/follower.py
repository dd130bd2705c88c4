"""Follows a run on another orchestrator: shows it, asks for approvals, stops it, returns how it ended.

The ledger in the store is the truth about ended stages; the state of the others comes from the orchestrator through
a small interface, the same for every orchestrator.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from components.contract.errors import PosttrainError, StoreUnavailable
from components.contract.job import Job
from components.contract.terminal import visible_line
from components.runtime.checkpoints.moves import asked, words
from components.runtime.ledger.records import alarms_key, end_key, failure_key, stage_key
from components.runtime.store import Store
from pipelines.plan.plan import Plan
from pipelines.runs.view import RunView

POLL_SECONDS = 1.0
AWAY_SECONDS = 120.0
"""How long an orchestrator or the store may be unreachable, such as during a restart, before following ends; the run
continues."""
STOP_SECONDS = 120.0
"""How long a run may take to stop."""
RUNNING, RETRYING, FAILED, BLOCKED, ASKING = "running", "retrying", "failed", "blocked", "asking"
"""States that an orchestrator reports for an unfinished stage; EVENTS has the view's event for each."""
DONE = "done"
EVENTS = {RUNNING: "started", RETRYING: "retry", FAILED: "failed", BLOCKED: "blocked", ASKING: "approval"}


class OrchestratorAway(PosttrainError):
    """The orchestrator does not answer properly; it may be back in a moment."""


@dataclass(frozen=True)
class StageState:
    """State of a stage: one of the words above, and for a retry the failed attempt."""

    word: str
    attempt: int = 0
    pause_seconds: float = 0.0
    """Until the next attempt."""
    note: str = ""
    """Why a stage that has begun does not run, such as for want of a node; empty while it does."""


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment, as its orchestrator sees it."""

    run_id: str | None
    """Run id in our ledger; None until the run's first task has written it."""
    stages: Mapping[str, StageState] = field(default_factory=dict)
    """Stages with a state to report; stages that wait for their turn are left out."""
    ended: bool = False
    """Whether the run is over, including its final task."""


class Orchestrator(Protocol):
    """One run at an orchestrator."""

    @property
    def name(self) -> str:
        """Return the orchestrator's display name."""
        ...

    @property
    def page(self) -> str:
        """Return the run's page there."""
        ...

    @property
    def stops(self) -> bool:
        """Return whether Ctrl-C here stops the run there."""
        ...

    def look(self) -> Snapshot:
        """Return the run now.

        Raises OrchestratorAway while nothing answers, InputError if the run's first task refused the request, and
        PosttrainError for a run that ended before it began.
        """
        ...

    def answer(self, stage: str, *, approved: bool) -> None:
        """Forward a person's approval or rejection of a stage."""
        ...

    def stop(self) -> None:
        """Stop the run; called only where the orchestrator `stops` runs."""
        ...

    def close(self) -> str:
        """Return the status of a run that ended without its last task, and record it in that task's place."""
        ...


class Follower:
    """Follows one run to its end."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        plan: Plan,
        store: Store,
        view: RunView,
        *,
        ended_before: dict[str, Any] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """`ended_before` is a resumed run's earlier record of its end."""
        self._orchestrator, self._plan, self._store, self._view = orchestrator, plan, store, view
        self._before, self._pause = ended_before, poll_seconds
        self._run_id: str | None = None
        self._shown: dict[str, StageState] = {}
        self._asked: set[str] = set()

    def follow(self) -> tuple[str, str]:
        """Return the run's id in the ledger, and how it ended: a status, or waiting for an absent person."""
        try:
            return self._follow(None)
        except KeyboardInterrupt:
            if not self._orchestrator.stops:
                raise
            print(f"posttrain: stopping {self._orchestrator.page}", file=sys.stderr)
            self._orchestrator.stop()
            return self._follow(time.monotonic() + STOP_SECONDS)

    def _follow(self, deadline: float | None) -> tuple[str, str]:
        """Follow until the run ends; after Ctrl-C nobody is asked, and `deadline` bounds the wait."""
        while True:
            if (status := self._patiently(lambda: self._step(asks=deadline is None))) is not None:
                assert self._run_id is not None
                return self._run_id, status
            if deadline is not None and time.monotonic() > deadline:
                raise PosttrainError(f"the run was asked to stop, but has not: {self._orchestrator.page}")
            time.sleep(self._pause)

    def _step(self, *, asks: bool) -> str | None:
        """Look once, and show what changed; return how the run ended, or that it only waits for a person."""
        run = self._orchestrator.look()
        self._run_id = run.run_id or self._run_id
        if self._run_id is None:
            return None
        self._show(self._run_id, run)
        if run.ended:
            return self._status(self._run_id)
        return "waiting" if asks and self._waits() else None

    def _patiently(self, step: Callable[[], str | None]) -> str | None:
        """Take a step; wait for an orchestrator or a store that is briefly unreachable, and say so once."""
        since = None
        while True:
            try:
                return step()
            except (OrchestratorAway, StoreUnavailable) as error:
                now = time.monotonic()
                if since is None:
                    since = now
                    print(f"posttrain: waiting: {visible_line(str(error))}", file=sys.stderr, flush=True)
                elif now - since > AWAY_SECONDS:
                    goes_on = f"the run goes on at {self._orchestrator.page}; the same command follows it again"
                    raise type(error)(f"{error}; {goes_on}") from error
                time.sleep(self._pause)

    def _show(self, run_id: str, run: Snapshot) -> None:
        """Send the view what changed in each stage."""
        ended = set(self._store.keys(f"ledger/{run_id}/stages/"))
        alarmed = set(self._store.keys(f"ledger/{run_id}/alarms/"))
        for job in self._plan.jobs:
            if alarms_key(run_id, job.stage) in alarmed and self._word(job) not in (DONE, FAILED):
                self._show_alarms(run_id, job.stage)
            if stage_key(run_id, job.stage) in ended:
                state: StageState | None = StageState(DONE)
            else:
                state = run.stages.get(job.stage)
            if state is None or state == self._shown.get(job.stage):
                continue
            if state.note:
                kind, facts = "waiting", {"time": time.time(), "text": state.note}
            else:
                kind, facts = EVENTS.get(state.word, "finished"), self._facts(run_id, job.stage, state)
            if state.word == FAILED and (move := asked(self._store, run_id)):
                kind, facts = "left", facts | {"error": words(move)}
            # Only once the store has answered: a stage whose facts are missing is shown again.
            self._shown[job.stage] = state
            self._view.event({"event": kind, "stage": job.stage, **facts})

    def _show_alarms(self, run_id: str, stage: str) -> None:
        """Send the view the alarms of a stage; it knows which of them it has shown."""
        record = self._store.get(alarms_key(run_id, stage)) or {"alarms": []}
        for alarm in record["alarms"]:
            self._view.event({"event": "alarm", "stage": stage, "time": time.time(), "alarm": alarm})

    def _facts(self, run_id: str, stage: str, state: StageState) -> dict[str, Any]:
        """Return the view's extra fields of a stage's event."""
        now = {"time": time.time()}
        if state.word == DONE:
            entry = self._store.get(stage_key(run_id, stage)) or {}
            now |= {"failed": True, "reason": entry["error"]} if entry.get("failed") else {}
            return now | {name: entry[name] for name in ("status", "cache", "metrics", "seconds")}
        if state.word == RUNNING:
            return now | {"resumed_from": None}
        if state.word == ASKING:
            return now | {"run_id": run_id}
        if state.word == RETRYING:
            now |= {"attempt": state.attempt, "seconds": state.pause_seconds}
        return now if state.word == BLOCKED else now | {"error": self._error(run_id, stage)}

    def _error(self, run_id: str, stage: str) -> str:
        failure = self._store.get(failure_key(run_id, stage))
        return failure["error"] if failure else f"its task failed; see its log in {self._orchestrator.name}"

    def _waits(self) -> bool:
        """Ask a person if one is here; return whether the run only waits for a person."""
        asking = [job for job in self._plan.jobs if self._word(job) == ASKING]
        for job in asking:
            if job.stage not in self._asked:
                answer = self._view.ask(job)
                if answer is not None:
                    self._orchestrator.answer(job.stage, approved=answer)
                self._asked.add(job.stage)  # an answer that did not arrive is asked for again
                if answer is not None:
                    return False
        # stages behind an open question or a failed stage cannot proceed
        held: set[str] = set()
        for job in self._plan.jobs:  # in graph order
            if self._word(job) in (ASKING, FAILED, BLOCKED) or held & set(job.after):
                held.add(job.stage)
        return bool(asking) and all(job.stage in held or self._word(job) == DONE for job in self._plan.jobs)

    def _word(self, job: Job) -> str | None:
        state = self._shown.get(job.stage)
        return state.word if state else None

    def _status(self, run_id: str) -> str:
        """Return how the run ended by the ledger; a run that lost its last task is ended here."""
        end = self._store.get(end_key(run_id))
        if end is None or end == self._before:
            return self._orchestrator.close()
        return str(end["status"])
