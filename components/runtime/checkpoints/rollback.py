"""Rollback: a stage whose alarm was raised returns to the newest checkpoint from before it, and ends there.

It returns to kept checkpoints alone, which are made at the same steps in every run: others are made when time has
passed, and an output must not depend on that. The checkpoint that it returns to says so itself, so that one write both
decides and returns: a stage that is killed before it raises the alarm again, one that is killed after it ends there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import GateFailed
from components.runtime.alarms.bounds import bounds_of
from components.runtime.checkpoints.checkpoints import STATE
from components.runtime.checkpoints.kept import copy_kept, find_kept, kept_steps
from components.runtime.ledger.fingerprint import Fingerprint

if TYPE_CHECKING:
    from components.contract.component import Component
    from components.contract.job import Job
    from components.runtime.store import Store
    from components.runtime.store.quarantine import Tell

PART = "rollback"
"""What `on_alarm` says of such a job; a part of its fingerprint; of the state of the checkpoint that one returned to,
and of its action: {"step", "alarm"}, the alarm as its record."""


def mark_of(job: Job, component: Component, own: Fingerprint) -> Fingerprint:
    """Return the fingerprint of a job: outputs of one that may be rolled back depend on alarms and kept checkpoints."""
    if job.on_alarm != PART:
        return own
    return Fingerprint.of({**own.parts, PART: {"every": job.keep_partial, "alarms": bounds_of(component, job.alarms)}})


def return_to_before(
    alarm: Mapping[str, Any], store: Store, fingerprint: str, stage: str, scratch: Path, tell: Tell
) -> int:
    """Make the newest kept checkpoint from before an alarm the partial one of its job, to end at; return its step.

    `scratch` is a folder to be made. Raises GateFailed if none was kept or it is gone, CorruptArtifact for damage.
    """
    before = [step for step in kept_steps(store, fingerprint) if step < alarm["since"]]
    if not before:
        raise GateFailed(
            f"stage {stage!r}: alarm {alarm['name']} holds since step {alarm['since']}, and no checkpoint from before "
            "it was kept to return to; keep more of them (keep_partial), or start from another model"
        )
    kept = find_kept(store, fingerprint, max(before))
    if kept is None or not store.has(kept.digest):
        raise GateFailed(f"the checkpoint of step {max(before)}, to return to after an alarm, is gone")
    copy_kept(store, kept, scratch, tell)
    state = json.loads((scratch / STATE).read_text())
    (scratch / STATE).write_text(json.dumps(state | {PART: {"step": kept.step, "alarm": alarm}}))
    store.partials(fingerprint).save(kept.step, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    return kept.step
