"""The stages of a plan as a table; shards of one stage share a row where the same becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from components.contract.job import FirstOf, reference_text
from pipelines.cli.output import seconds_text

if TYPE_CHECKING:
    from pipelines.plan.forecast import StageForecast
    from pipelines.plan.plan import Plan
    from pipelines.recipe.stage import Stage

HEAD = ["stage", "component", "pool", "will", "why", "about", "after"]


def plan_rows(planned: Plan, forecasts: Sequence[StageForecast]) -> list[list[str]]:
    """Return the rows of the table, in the order of the plan."""
    stages = {stage.name: stage for stage in planned.recipe.stages}
    shard_of = {name: stage.shard_of for name, stage in stages.items()}
    rows = []
    for _, group in groupby(forecasts, key=lambda one: _alike(one, stages[one.job.stage], shard_of)):
        alike = list(group)
        rows.append(_row(alike, stages[alike[0].job.stage], shard_of))
    return rows


def _alike(forecast: StageForecast, stage: Stage, shard_of: Mapping[str, str]) -> tuple[str, ...]:
    """Return what shards of a stage have in common that share a row; any other stage has one of its own."""
    own = stage.shard_of or f"{stage.name} "  # no shard is of a stage with such a name
    return (own, forecast.outlook.value, _why(forecast, stage), ", ".join(_folded(forecast.job.after, shard_of)))


def _row(alike: Sequence[StageForecast], stage: Stage, shard_of: Mapping[str, str]) -> list[str]:
    first = alike[0]
    seconds = [one.seconds for one in alike if one.seconds is not None]
    return [
        _from_to([one.job.stage for one in alike]),
        first.job.component,
        first.job.resources.pool,
        "cached, asks" if first.job.approve and first.outlook.value == "cached" else first.outlook.value,
        _why(first, stage),
        seconds_text(max(seconds, default=None)) if first.outlook.value == "run" else "",
        ", ".join(_folded(first.job.after, shard_of)) or "-",
    ]


def _why(forecast: StageForecast, stage: Stage) -> str:
    return _conditions(forecast) + "; ".join([forecast.reason, *_fallbacks(forecast, stage)])


def _folded(names: Sequence[str], shard_of: Mapping[str, str]) -> Iterator[str]:
    for _, group in groupby(names, key=lambda name: shard_of.get(name) or f"{name} "):
        yield _from_to(list(group))


def _from_to(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _conditions(stage: StageForecast) -> str:
    job = stage.job
    parts = [f"if {job.when}: "] if job.when and stage.outlook.value == "run" else []
    parts += ["unless an input is skipped: "] if stage.may_be_skipped and not job.when else []
    return "".join([*parts, "after approval: " if job.approve and stage.outlook.value != "skip" else ""])


def _fallbacks(forecast: StageForecast, stage: Stage) -> list[str]:
    """Return which inputs a stage takes instead of others, where known."""
    found = []
    for port, references in forecast.job.inputs.items():
        left = forecast.inputs.get(port, ())
        is_open = any(isinstance(ref, FirstOf) for ref in left)
        takes = ", ".join(map(reference_text, left)) or "nothing"
        replaced = port in stage.without or any(isinstance(ref, FirstOf) for ref in references)
        if replaced and forecast.outlook.value != "skip":
            found.append(f"input {port} takes {takes}" + (" (the run decides)" if is_open else ""))
    found += [f"input {port} takes nothing" for port in stage.without if port not in forecast.job.inputs]
    return found
