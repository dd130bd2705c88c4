"""Refuses, by name and with a remedy, what a run needs and its engine cannot do, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.registry import components
from components.contract.terminal import visible_line
from components.runtime.job.ranks import ranks_of
from pipelines.engines.engine import Engine, RunOptions
from pipelines.engines.registry import engines_with
from pipelines.plan.plan import Plan
from pipelines.recipe.schedule.section import Schedule
from pipelines.recipe.stage import Stage

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store

BUCKET = "--store s3://bucket/prefix"


def refuse(engine: Engine, plan: Plan, store: Store, options: RunOptions) -> None:
    """Raise InputError with everything in a run that the engine cannot do, one line each."""
    found = [*_of_options(engine, options), *_of_store(engine, store), *_of_stages(engine, plan, store)]
    lines = [f"engine {engine.name} cannot {text}" for text in (*found, *engine.refusals(plan))]
    if lines:
        raise InputError("\n".join(lines))


def schedule_refusals(engine: Engine, schedule: Schedule | None) -> list[str]:
    """Return what in a schedule the engine cannot start runs by, one line each, beginning with its name."""
    if schedule is None:
        return []
    able = engine.capabilities
    data = [item.text for item in schedule.on if item.kind != "asset"]
    assets = [item.text for item in schedule.on if item.kind == "asset"]
    found = []
    if schedule.cron and not able.schedules:
        found.append(f"start runs by time (cron {schedule.cron.words}); {_use('schedules')}")
    if data and not able.data_triggers:
        found.append(f"start runs when data change ({', '.join(map(visible_line, data))}); {_use('data_triggers')}")
    if assets and not able.asset_triggers:
        found.append(f"start runs by assets ({', '.join(assets)}); {_use('asset_triggers')}")
    return [f"engine {engine.name} cannot {text}" for text in found]


def _of_options(engine: Engine, options: RunOptions) -> Iterator[str]:
    able = engine.capabilities
    if options.containers and not able.containers:
        yield f"run jobs in containers of this machine (--containers): {engine.decides}; {_use('containers')}"
    if options.jobs is not None and not able.core_limit:
        yield f"bound the cores of this machine (--jobs): {engine.decides}; {_use('core_limit')}"


def _of_store(engine: Engine, store: Store) -> Iterator[str]:
    if "://" not in store.uri and not engine.capabilities.folder_store:
        yield f"work on the folder {store.uri}: pods cannot see it; use a bucket, {BUCKET}"


def _of_stages(engine: Engine, plan: Plan, store: Store) -> Iterator[str]:
    """Yield what stages need and the engine cannot provide; a cached stage needs nothing but its approval."""
    needs = {job.stage: _needs(engine, job, plan.stage(job.stage)) for job in plan.jobs}
    if not any(needs.values()):
        return
    from pipelines.plan.forecast import Outlook, forecast

    cached = {stage.job.stage for stage in forecast(plan, store) if stage.outlook is Outlook.CACHED}
    stages: dict[tuple[str, str], list[str]] = {}
    for stage, wanted in needs.items():
        for need in wanted:
            if stage not in cached or need[0] == "approvals":
                stages.setdefault(need, []).append(stage)
    for (capability, text), names in stages.items():
        yield f"{text} (stages: {', '.join(names)}); {_use(capability)}"


def _needs(engine: Engine, job: Job, stage: Stage) -> list[tuple[str, str]]:
    """Return (capability, what the engine cannot do) for what a job needs and the engine lacks."""
    able, found = engine.capabilities, []
    if job.approve is not None and not able.approvals:
        found.append(("approvals", "wait for a person's approval: it has nowhere to ask"))
    if job.retry.retries and not able.retries:
        found.append(("retries", "try a failed stage again: `retries` must be 0"))
    if job.on_failure == "skip" and not able.going_on:
        found.append(("going_on", f"go on without a stage that failed ({stage.mark}): `on_failure` must be stop"))
    if job.timeout_seconds is not None and not able.timeouts:
        found.append(("timeouts", "end a stage at its timeout: leave `timeout` out"))
    nodes = job.resources.nodes
    if nodes > 1 and not able.several_nodes and ranks_of(job, components().get(job.component)) > 1:
        found.append(("several_nodes", f"run one stage on the {nodes} nodes of pool {job.resources.pool!r}"))
    return found


def _use(capability: str) -> str:
    names = engines_with(capability)
    return f"use --engine {' or '.join(names)}" if names else "no engine can"
