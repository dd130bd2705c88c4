"""Forks: a stage that begins with a checkpoint of the same stage in another run.

The fingerprint of a fork is that of its own work, with the work and the step that it goes on from. What came before the
checkpoint must be equal: the component, its seed and its inputs. Which parameters may differ follows from what the
checkpoint holds, and the component says that.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from components.contract.errors import InputError, did_you_mean, schema_problems
from components.contract.forking import Held
from components.runtime.checkpoints.begun import newest_fingerprints
from components.runtime.checkpoints.kept import Kept, copy_kept, files_of, find_kept, kept_steps
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.ledger.records import run_key, stage_key

if TYPE_CHECKING:
    from components.contract.component import Component
    from components.contract.job import Fork
    from components.contract.params import Params
    from components.runtime.store import Store
    from components.runtime.store.quarantine import Tell

PART = "fork"
"""Of a fork's fingerprint."""


@dataclass(frozen=True)
class Forked:
    """What a fork goes on from, as its records tell."""

    run: str
    stage: str
    kept: Kept

    def to_record(self) -> dict[str, Any]:
        """Return it for the action and the ledger."""
        kept = self.kept
        return {
            "run_id": self.run,
            "stage": self.stage,
            "step": kept.step,
            "fingerprint": kept.fingerprint,
            "checkpoint": kept.digest,
            "seconds": round(kept.seconds, 3),
        }


def fingerprint_in(store: Store, run: str, stage: str) -> str:
    """Return the fingerprint that a stage has in a run, ended or not; raise InputError if it never began there."""
    entry = store.recover(stage_key(run, stage))
    if entry and entry["fingerprint"]:
        return str(entry["fingerprint"])
    if begun := newest_fingerprints(store, run, stage):
        return begun[stage]
    known = store.recover(run_key(run))
    if known is None:
        near = did_you_mean(run, [name for name in store.names("ledger/") if not name.endswith(".json")][-20:])
        raise InputError(f"fork: no run {run!r} in {store.uri}{near}")
    stages = [planned["name"] for planned in known.get("stages", ())]
    what = "has not begun" if stage in stages else f"is none of its stages{did_you_mean(stage, stages)}"
    raise InputError(f"fork: stage {stage!r} of run {run} {what}: there is no checkpoint to go on from")


def mark_of(store: Store, fork: Fork, stage: str, own: Fingerprint) -> Fingerprint:
    """Return the fingerprint of a fork, given that of its work without the fork."""
    behind = fingerprint_in(store, fork.run, stage)
    return Fingerprint.of({**own.parts, PART: {"of": behind, "step": fork.step}})


def kept_for(store: Store, fork: Fork, stage: str) -> Forked:
    """Return the checkpoint of a fork; raise InputError, with the nearest, if none of its step was kept."""
    behind = fingerprint_in(store, fork.run, stage)
    kept = find_kept(store, behind, fork.step)
    if kept is None or not store.has(kept.digest):
        raise InputError(f"fork: {_none(store, fork, stage, behind)}")
    return Forked(fork.run, stage, kept)


def _none(store: Store, fork: Fork, stage: str, behind: str) -> str:
    """Say that there is no checkpoint of a step, which ones there are, and how they are kept."""
    steps = kept_steps(store, behind)
    where = f"stage {stage!r} of run {fork.run} kept no checkpoint"
    if not steps:
        return f"{where} at all: set `keep_partial: every N` on the stage, and run it again from its beginning"
    nearest = min(steps, key=lambda step: (abs(step - fork.step), step))
    others = f" (kept: {', '.join(map(str, steps))})" if len(steps) <= 8 else f" ({len(steps)} are kept)"
    return f"{where} of step {fork.step}; the nearest is {stage}@{nearest}{others}"


def check_fit(
    store: Store,
    forked: Forked,
    component: Component,
    params: Params,
    now: Mapping[str, Any],
    names: Mapping[str, str],
) -> None:
    """Raise InputError, in one line, if work with these parameters and inputs cannot go on from a checkpoint.

    `now` has component, seed and inputs as parts of a fingerprint do; `names` has, for an input port, the stage that
    makes it.
    """
    reasons = list(_invalid(forked.kept.parts, now, names))
    if not reasons and component.forks is not None:
        module, _, name = component.forks.partition(":")
        try:
            before = component.params.model_validate(forked.kept.parts["params"])
        except ValidationError as error:
            raise InputError(f"fork: its parameters of then mean nothing now: {schema_problems(error)}") from error
        held = Held(forked.kept.step, files_of(store, forked.kept))
        reasons = list(getattr(importlib.import_module(module), name)(before, params, held))
    if reasons:
        kept = forked.kept
        raise InputError(
            f"fork: {forked.stage!r} cannot go on from step {kept.step} of run {forked.run}: {'; '.join(reasons)}"
        )


def _invalid(before: Mapping[str, Any], now: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes all steps before a checkpoint other ones."""
    if before["component"] != now["component"]:
        yield f"component {before['component']} became {now['component']}, which has no such checkpoint"
        return
    if before["seed"] != now["seed"]:
        yield f"seed {before['seed']} became {now['seed']}: every draw and the order of the data would be others"
    for port in sorted({*before["inputs"], *now["inputs"]}):
        if before["inputs"].get(port) != now["inputs"].get(port):
            made = f", made by {names[port]}," if port in names else ""
            yield f"its input {port}{made} is another one, so no step before the fork is the same"


def begin_fork(store: Store, forked: Forked, mark: Fingerprint, scratch: Path, tell: Tell) -> None:
    """Make a kept checkpoint the first partial checkpoint of a fork that has none; `scratch` is a folder to be made.

    From there on the fork is a stage that resumes: a kill at any instant repeats this, or goes on from its own.
    """
    partials = store.partials(mark.digest)
    if partials.exist():
        return
    kept = forked.kept
    copy_kept(store, kept, scratch, tell)
    partials.save(kept.step, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
