"""What only the run decides about a job: parameters that earlier stages draw or measure, and which input is taken.

The launcher settles a job from the run's ledger before it computes the fingerprint; a plan settles it from what is
cached. Settled jobs are plain jobs: the values are in their parameters, and so in their fingerprints.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError, StageFailed
from components.contract.job import FirstOf, InputRef, Job, Setting, StageRef, UriRef
from components.runtime.ledger.records import failure_in, how_it_ended, stage_key
from components.runtime.lineage.heal import read_or_heal
from components.runtime.store import Store

Entry = Mapping[str, Any]
"""Of a stage: its `status` and its `metrics`."""


@dataclass(frozen=True)
class Settled:
    """A job with what the run has decided so far."""

    job: Job
    waits_for: tuple[str, ...] = ()
    """Stages that have not ended and decide about it."""
    skipped: str | None = None
    """Why it is skipped, if a stage that it cannot do without was."""


def settle(job: Job, entry: Callable[[str], Entry | None]) -> Settled:
    """Return the job with the metrics of earlier stages in their places; `entry` is None for a stage yet to end.

    Raises InputError for a metric that a stage did not measure.
    """
    picks = {ref.picked_by for refs in job.inputs.values() for ref in refs if isinstance(ref, FirstOf)} - {None}
    sources = {setting.stage for setting in job.settings} | {pick.stage for pick in picks if pick}
    if not sources:
        return Settled(job)
    known = {stage: entry(stage) for stage in sorted(sources)}
    if waits := tuple(stage for stage, found in known.items() if found is None):
        return Settled(job, waits_for=waits)
    entries = {stage: found for stage, found in known.items() if found is not None}
    needed = {setting.stage for setting in job.settings if not setting.or_none} | {pick.stage for pick in picks if pick}
    if skipped := sorted(stage for stage in needed if entries[stage]["status"] == "skipped"):
        return Settled(job, skipped=f"{skipped[0]}, which decides about it, {how_it_ended(entries[skipped[0]])}")
    params = copy.deepcopy(job.params)
    for setting in job.settings:
        _put(params, setting.path, _value(job, setting, entries[setting.stage]))
    inputs = {port: [_picked(job, ref, entries) for ref in refs] for port, refs in job.inputs.items()}
    return Settled(job.model_copy(update={"params": params, "inputs": inputs, "settings": []}))


def settle_in_run(job: Job, store: Store) -> Settled:
    """Return the job settled from its run's ledger; raise StageFailed if a stage that decides has not ended."""
    settled = settle(job, lambda stage: read_or_heal(store, stage_key(job.run_id, stage)))
    if settled.waits_for:
        missing = settled.waits_for[0]
        raise StageFailed(f"stage {job.stage!r} needs {missing!r}, which has not ended in run {job.run_id}")
    return settled


def _value(job: Job, setting: Setting, entry: Entry) -> Any:
    if setting.failure:
        return failure_in(entry)
    if entry["status"] == "skipped":
        return None
    number = _metric(job, setting.stage, setting.metric, entry)
    if setting.choices is not None:
        return copy.deepcopy(setting.choices[int(number)])
    return int(number) if setting.whole else number


def _picked(job: Job, reference: InputRef, entries: Mapping[str, Entry]) -> StageRef | UriRef | FirstOf:
    if not isinstance(reference, FirstOf) or reference.picked_by is None:
        return reference
    by = reference.picked_by
    return reference.first_of[int(_metric(job, by.stage, by.port, entries[by.stage])) - 1]


def _metric(job: Job, stage: str, metric: str, entry: Entry) -> float:
    measured = entry["metrics"]
    if metric not in measured:
        known = ", ".join(measured) or "nothing"
        raise InputError(f"stage {job.stage!r}: {stage} measured no {metric!r} (it has: {known})")
    return float(measured[metric])


def _put(params: dict[str, Any], path: list[str | int], value: Any) -> None:
    place: Any = params
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
