"""A plan as JSON, for scripts and the notebook: `posttrain plan --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.contract.job import reference_text
from components.contract.memory import GIB
from components.runtime.costs.amounts import Amount, total
from pipelines.plan.advice import advice
from pipelines.plan.first_prompts import first_prompts
from pipelines.plan.forecast import StageForecast
from pipelines.plan.memory import Fit, memory_fits
from pipelines.plan.plan import Plan
from pipelines.recipe.schedule.summary import schedule_json
from pipelines.recipe.sweep.summary import sweep_json


def plan_json(planned: Plan, stages: Sequence[StageForecast]) -> dict[str, Any]:
    """Return a plan as JSON for scripts."""
    recipe = planned.recipe
    return {
        "recipe": recipe.name,
        "summary": recipe.summary,
        "seed": recipe.seed,
        "params": recipe.params,
        "plan_digest": planned.digest,
        "store": planned.store,
        "sweep": sweep_json(recipe.sweep) if recipe.sweep else None,
        "schedule": schedule_json(recipe.schedule) if recipe.schedule else None,
        "stages": [_stage_json(stage) | _shard_json(planned, stage) for stage in stages],
        "left_out": [{"name": left.name, "reason": left.reason} for left in recipe.left_out],
        "gpu_hours": _sum([stage.gpu_hours for stage in stages]),
        "without_basis": [stage.job.stage for stage in stages if stage.gpu_hours is None],
        "cost": cost_of(stages).to_json(),
        "memory": {name: _memory_json(fits) for name, fits in memory_fits(recipe).items()},
        "prompts": [{"model": prompt.model, "text": prompt.text, **prompt.facts} for prompt in first_prompts(recipe)],
        "notes": advice(recipe),
    }


def _memory_json(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    return [
        {
            "where": fit.where,
            "need_gib": round(fit.need_gib, 3),
            "limit_gib": fit.limit_gib,
            "parts": {name: round(size / GIB, 4) for name, size in fit.estimate.parts(fit.where).items()},
        }
        for fit in fits
    ]


def _stage_json(stage: StageForecast) -> dict[str, Any]:
    job = stage.job
    return {
        "name": job.stage,
        "component": job.component,
        "pool": job.resources.pool,
        "cached": stage.outlook.value == "cached",
        "outlook": stage.outlook.value,
        "reason": stage.reason,
        "fingerprint": stage.fingerprint,
        "after": job.after,
        "labels": job.labels,
        "group": job.group,
        "seed": job.seed,
        "when": job.when,
        "needs_approval": job.approve is not None,
        "inputs": {port: [reference_text(ref) for ref in refs] for port, refs in stage.inputs.items()},
        "may_be_skipped": stage.may_be_skipped,
        "seconds": stage.seconds,
        "startup_seconds": round(stage.startup, 3),
        "gpu_hours": stage.gpu_hours,
        "cost": stage.amount.to_json() if stage.amount else None,
    }


def _shard_json(planned: Plan, forecast: StageForecast) -> dict[str, str]:
    """Return the stage that a stage is a shard of; of others nothing."""
    shard_of = planned.stage(forecast.job.stage).shard_of
    return {"shard_of": shard_of} if shard_of else {}


def cost_of(stages: Sequence[StageForecast]) -> Amount:
    """Return what the stages take that have a basis for an estimate."""
    return total(stage.amount for stage in stages if stage.amount is not None)


def _sum(values: Sequence[float | None]) -> float:
    return round(sum(value for value in values if value is not None), 4)
