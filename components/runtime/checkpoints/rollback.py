"""Rollback: a stage whose alarm was raised returns to the newest checkpoint from before it, and ends there.

It returns to kept checkpoints alone, which are made at the same steps in every run: others are made when time has
passed, and an output must not depend on that. What was decided is a record of work in progress, so that a stage that is
killed while it returns ends at the same step.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import GateFailed
from components.runtime.checkpoints.kept import find_kept, kept_steps
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.store.answers import keep_answer, kept_answers

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store
    from components.runtime.store.quarantine import Tell

PART = "rollback"
"""Of the fingerprint of a job that may be rolled back, and of its action if it was."""
_KEY = hashlib.sha256(PART.encode()).hexdigest()


@dataclass(frozen=True)
class Rollback:
    """Where a stage returned to, and why."""

    step: int
    alarm: dict[str, Any]
    """The alarm's record."""

    def to_record(self) -> dict[str, Any]:
        """Return it for the action."""
        return {"step": self.step, "alarm": self.alarm}


def mark_of(job: Job, bounds: dict[str, float | None], own: Fingerprint) -> Fingerprint:
    """Return the fingerprint of a job that may be rolled back: its outputs depend on alarms and kept checkpoints."""
    return Fingerprint.of({**own.parts, PART: {"every": job.keep_partial, "alarms": bounds}})


def rollback_of(store: Store, fingerprint: str) -> Rollback | None:
    """Return what an attempt of this job decided, or None."""
    record = kept_answers(store, fingerprint).get(_KEY)
    return None if record is None else Rollback(int(record["step"]), record["alarm"])


def decide(store: Store, fingerprint: str, stage: str, alarm: dict[str, Any]) -> Rollback:
    """Choose the newest kept checkpoint from before an alarm; raise GateFailed if there is none."""
    before = [step for step in kept_steps(store, fingerprint) if step < alarm["since"]]
    if not before:
        raise GateFailed(
            f"stage {stage!r}: alarm {alarm['name']} holds since step {alarm['since']}, and no checkpoint from before "
            "it was kept to return to; keep more of them (keep_partial), or start from another model"
        )
    found = Rollback(max(before), alarm)
    keep_answer(store, fingerprint, _KEY, found.to_record())
    return found


def return_to(store: Store, fingerprint: str, rollback: Rollback, scratch: Path, tell: Tell) -> None:
    """Make the chosen checkpoint the newest partial one of its job; `scratch` is a folder to be made.

    Raises GateFailed if the checkpoint was damaged since, CorruptArtifact if that shows only now.
    """
    kept = find_kept(store, fingerprint, rollback.step)
    if kept is None or not store.has(kept.digest):
        raise GateFailed(f"the checkpoint of step {rollback.step}, to return to after an alarm, is gone")
    shutil.copytree(store.fetch_or_set_aside(kept.digest, tell), scratch)
    for path in scratch.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    store.partials(fingerprint).save(rollback.step, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
