"""Before a fork runs: whether it shares what it says it shares. One line says what a change invalidates, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact, InputError
from components.contract.job import StageRef
from components.runtime.checkpoints.forks import Forked, check_fit, kept_for
from components.runtime.ledger.fingerprint import fingerprint
from components.runtime.ledger.records import action_key, stage_key
from pipelines.plan.forecast import forecast
from pipelines.plan.history import differences
from pipelines.recipe.fork import ForkPoint

if TYPE_CHECKING:
    from components.contract.job import InputRef, Job
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.plan.plan import Plan


@dataclass(frozen=True)
class SharedWork:
    """What a fork shares with the run that it is of."""

    point: ForkPoint
    forked: Forked
    stages: tuple[str, ...]
    """Stages before the forked one, in order."""


def need_fork(plan: Plan, store: Store, stages: Sequence[StageForecast] | None = None) -> SharedWork | None:
    """Return what a plan shares with the run that it forks; None if it forks none.

    Raises InputError in one line: no checkpoint of that step, and the nearest; or what of the change reaches back
    before the step, and why. `stages` is the plan's forecast, where that is known.
    """
    point = plan.recipe.fork
    if point is None:
        return None
    job = next((job for job in plan.jobs if job.stage == point.stage), None)
    if job is None or job.fork is None:
        reason = next((left.reason for left in plan.recipe.left_out if left.name == point.stage), "it is left out")
        raise InputError(f"fork: stage {point.stage!r} is not in this run: {reason}")
    forked = kept_for(store, job.fork, job.stage)
    found = {stage.job.stage: stage for stage in stages or forecast(plan, store)}
    before = _before(plan.jobs, job)
    for name in before:
        if told := _parted(store, point, found[name], plan):
            raise InputError(told)
    stage, refs = plan.stage(job.stage), found[job.stage].inputs
    config = stage.component.settled(stage.component.params.model_validate(job.params), job.resources)
    digests = {port: _digests(store, forked, port, found) for port, found in refs.items() if found}
    now = {"component": job.component, "seed": job.seed, "inputs": digests}
    made = {port: ref.stage for port, found in refs.items() for ref in found if isinstance(ref, StageRef)}
    check_fit(store, forked, stage.component, config, now, made)
    return SharedWork(point, forked, tuple(before))


def _digests(store: Store, forked: Forked, port: str, refs: Sequence[InputRef]) -> list[str]:
    """Return the inputs of a port, known since all stages before are those of the forked run; else as they were."""
    found = []
    for ref in refs:
        entry = store.recover(stage_key(forked.run, ref.stage)) if isinstance(ref, StageRef) else None
        output = entry["outputs"].get(ref.port) if entry and isinstance(ref, StageRef) else None
        if output is None:  # the stage itself compares it when it begins
            return list(forked.kept.parts["inputs"].get(port, ()))
        found.append(output["digest"])
    return found


def _before(jobs: Sequence[Job], job: Job) -> list[str]:
    """Return the stages behind a job, at any depth, in the plan's order."""
    of = {other.stage: other for other in jobs}
    waiting, found = list(job.after), set[str]()
    while waiting:
        name = waiting.pop()
        if name in of and name not in found:
            found.add(name)
            waiting += of[name].after
    return [other.stage for other in jobs if other.stage in found]


def _parted(store: Store, point: ForkPoint, found: StageForecast, plan: Plan) -> str | None:
    """Return why a stage before the fork is not the one of the forked run; None if it is."""
    name = found.job.stage
    entry = store.recover(stage_key(point.run, name))
    if entry is None:
        return f"fork: stage {name!r}, before {point.place}, has not ended in run {point.run}"
    if entry["status"] == "skipped" or found.fingerprint in (None, entry["fingerprint"]):
        return None
    why = _why(store, entry["fingerprint"], found, plan) or found.reason
    able = plan.stage(name).component.forks is not None
    instead = f"; fork at a step of {name}, or run the recipe anew" if able else "; run the recipe anew"
    return (
        f"fork: this changes stage {name!r} ({why}), which is before {point.place}: no step of {point.stage} "
        f"can be shared{instead}"
    )


def _why(store: Store, before: str, found: StageForecast, plan: Plan) -> str:
    """Return what differs between a stage then and now, in words; empty if that is not known."""
    try:
        action = store.get(action_key(before))
    except CorruptArtifact:
        return ""
    if action is None or found.fingerprint is None:
        return ""
    now = found.action["parts"] if found.action else _parts_of(plan, found, action["parts"])
    return "; ".join(differences(action["parts"], now))


def _parts_of(plan: Plan, found: StageForecast, before: Any) -> Any:
    """Return the parts of the fingerprint that a stage which will run has, but for what its rows name."""
    stage, job = plan.stage(found.job.stage), found.job
    config = stage.component.settled(stage.component.params.model_validate(job.params), job.resources)
    own = fingerprint(stage.component, config, before["inputs"], job.seed, job.resources)
    return {**own.parts, **({"verifiers": before["verifiers"]} if "verifiers" in before else {})}
