"""Moves: a run ends at a step's border where it is, and another run goes on from there, on another engine.

    ledger/<run>/move.json    where the run goes on, which states its unfinished stages hand over, and the run there

A stage looks for the record at every step: it makes a checkpoint and ends. The run that goes on has the same work to
do, so it finds the checkpoint by its fingerprint; the record says which one that has to be.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, Moved, PosttrainError
from components.runtime.checkpoints.begun import beginnings, newest_fingerprints
from components.runtime.ledger.records import run_key, stage_key, utc

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.ledger.fingerprint import Fingerprint
    from components.runtime.store import Store
    from components.runtime.store.quarantine import Tell

LOOK_SECONDS, LOOK_IN_BUCKETS_SECONDS = 0.5, 5.0


@dataclass(frozen=True)
class State:
    """The state of an unfinished stage: its newest checkpoint."""

    stage: str
    fingerprint: str
    step: int
    digest: str
    """Of the checkpoint's manifest, which has the SHA-256 of each of its files."""


def move_key(run_id: str) -> str:
    """Return the key of the record of a run that moves, or has moved."""
    return f"ledger/{run_id}/move.json"


def ask(store: Store, run_id: str, to: str) -> None:
    """Ask the stages of a run to end at their next step, since it goes on on engine `to`."""
    store.put(move_key(run_id), {"run_id": run_id, "to": to, "asked": utc(time.time()), "states": []}, overwrite=True)


def withdraw(store: Store, run_id: str) -> None:
    """Take it back: the run can go on where it was."""
    store.blobs.delete([move_key(run_id)])


def take_back(store: Store, run_id: str) -> None:
    """Withdraw a move that has not begun a run elsewhere, such as of a mover that was killed: the run goes on here."""
    record = asked(store, run_id)
    if record is not None and not record.get("as"):
        withdraw(store, run_id)


def asked(store: Store, run_id: str) -> dict[str, Any] | None:
    """Return the record of a run that was asked to move, or has moved; None for others."""
    return store.recover(move_key(run_id))


def words(move: dict[str, Any]) -> str:
    """Return in words where a run goes on."""
    return f"the run continues on engine {move['to']}" + (f", as run {move['as']}" if move.get("as") else "")


class Border:
    """Tells a running stage at its steps whether its run moves."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._pause = LOOK_IN_BUCKETS_SECONDS if "://" in store.uri else LOOK_SECONDS
        self._looked = time.monotonic()
        self.move: dict[str, Any] | None = None

    def reached(self) -> bool:
        """Return whether the stage is to end here; looks into the store now and then."""
        now = time.monotonic()
        if self.move is None and now - self._looked >= self._pause:
            self._looked = now
            with suppress(PosttrainError):  # a store that is away: the next look may find it
                self.move = asked(self._store, self._run_id)
        return self.move is not None

    def leave(self, stage: str, step: int) -> None:
        """End a stage whose checkpoint of `step` is committed, if its run still moves: raise Moved."""
        if self.move is not None:  # it may have been taken back while the checkpoint was written
            self.move = asked(self._store, self._run_id)
        if self.move is not None:
            raise Moved(f"stage {stage!r} ended at step {step}: {words(self.move)}")


def refuse_moved(store: Store, run_id: str, stage: str) -> None:
    """Raise Moved if no further stage of a run is to begin here."""
    if move := asked(store, run_id):
        raise Moved(f"stage {stage!r} does not begin here: {words(move)}")


def fingerprints_begun(store: Store, run_id: str) -> dict[str, str]:
    """Return stage -> fingerprint of the stages of a run that began and have not ended well."""
    begun = newest_fingerprints(store, run_id)
    return {stage: mark for stage, mark in begun.items() if not store.recover(stage_key(run_id, stage))}


def hand_over(store: Store, run_id: str, scratch: Path, tell: Tell, *, wait_seconds: float) -> list[State]:
    """Verify the newest checkpoints of a run's unfinished stages byte by byte, and record them in its move.

    `scratch` is a folder to be made. Raises StoreLocked if a stage is still at work after `wait_seconds`.
    """
    states = list(_states(store, run_id, scratch, tell, wait_seconds))
    record = asked(store, run_id)
    if record is None:
        raise InputError(f"move: run {run_id} was not asked to move, or that was taken back")
    store.put(move_key(run_id), {**record, "states": [asdict(state) for state in states]}, overwrite=True)
    return states


def _states(store: Store, run_id: str, scratch: Path, tell: Tell, wait_seconds: float) -> Iterator[State]:
    for stage, mark in fingerprints_begun(store, run_id).items():
        with store.lock(f"job-{mark}", wait_seconds=wait_seconds):
            found = store.partials(mark).load(scratch / stage, tell)
            shutil.rmtree(scratch / stage, ignore_errors=True)
        if found is not None:
            yield State(stage, mark, found.step, found.key.rpartition("-")[2])


def state_for(store: Store, job: Job) -> State | None:
    """Return the state that the run of a job goes on with in its stage; None if it moved here without one.

    Raises InputError if the store does not know the run's move.
    """
    if job.moved is None:
        return None
    record = asked(store, job.moved)
    if record is None:
        if store.recover(run_key(job.moved)):  # taken back since: a stage finds its checkpoint without it
            return None
        raise InputError(
            f"stage {job.stage!r}: there is no run {job.moved} to go on for; is {store.uri} its store, too?"
        )
    return next((State(**state) for state in record["states"] if state["stage"] == job.stage), None)


def check_work(store: Store, job: Job, state: State, mark: Fingerprint) -> None:
    """Raise InputError if a stage has other work to do here than where it began: its state is of no use then."""
    if state.fingerprint == mark.digest:
        return
    began = _parts(store, str(job.moved), state)
    other = [name for name, part in began.items() if part != mark.parts.get(name)]
    what = f" ({', '.join(other)})" if other else ""
    raise InputError(
        f"stage {job.stage!r} cannot go on with the state of run {job.moved} at step {state.step}: its work differs "
        f"here{what}; use the same code, pools and data in both places, or run the recipe anew"
    )


def _parts(store: Store, run_id: str, state: State) -> dict[str, Any]:
    """Return what the work that began a stage elsewhere consisted of; empty if that is no longer known."""
    events = beginnings(store, run_id, state.stage)
    event = next((event for event in events if event["fingerprint"] == state.fingerprint), None)
    if event is None:
        return {}
    plain = {name: event[name] for name in ("component", "params", "seed")}
    return {**plain, "code": event["code"].get("files"), **event.get("also_counted", {})}


def note_arrival(store: Store, moved: str, run_id: str) -> None:
    """Record the run that goes on for another one."""
    record = asked(store, moved)
    if record is not None and record.get("as") != run_id:
        store.put(move_key(moved), {**record, "as": run_id}, overwrite=True)


def arrived(job: Job, state: State, step: int | None, digest: str | None, tell: Tell) -> dict[str, Any]:
    """Return what is told of a stage that goes on here from a checkpoint. Warn if it is not the verified one.

    A later one is this run's own, after a kill. An earlier one stands in for a damaged one: the bytes become the same.
    """
    if (step, digest) == (state.step, state.digest):
        return {"moved": {"run": job.moved, "step": step, "digest": digest}}
    if step is None or step <= state.step:
        tell(
            f"the state of step {state.step} that run {job.moved} handed over is damaged or gone: this goes on from "
            f"{f'step {step}' if step is not None else 'the beginning'}, to the same result"
        )
    return {}
