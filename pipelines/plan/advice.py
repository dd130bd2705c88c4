"""Remarks of components on how a recipe uses them: shown by `validate` and `plan`, never an error."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.job import FirstOf, StageRef, alternatives, reference_text
from components.runtime.inputs.choice import State, choose
from pipelines.plan.first_prompts import prompt_faults
from pipelines.plan.judged import unaudited_judges
from pipelines.plan.known import readings
from pipelines.plan.local_files import missing_files
from pipelines.plan.memory import memory_warnings
from pipelines.plan.pool_defaults import pool_defaults
from pipelines.recipe.recipe import Recipe


def advice(recipe: Recipe) -> list[str]:
    """Return each remark once, with the stages it concerns: "rl-seed-0 and 2 more: ..."."""
    roles = {stage.name: stage.component.role for stage in recipe.stages}
    about: dict[str, list[str]] = {}
    for stage in recipe.stages:
        if stage.component.advice is None:
            continue
        makers = {
            port: [roles[r.stage] for r in alternatives(refs) if isinstance(r, StageRef) and r.stage in roles]
            for port, refs in stage.inputs.items()
        }
        for line in stage.component.advice(stage.config, makers):
            about.setdefault(line, []).append(stage.name)
    for name, line in needless_fallbacks(recipe):
        about.setdefault(line, []).append(name)
    for name, line in unaudited_judges(recipe):
        about.setdefault(line, []).append(name)
    for stage, mark, line in missing_files(recipe):
        about.setdefault(f"{mark}: {line}; plan and run refuse this where the stages run", []).append(stage.name)
    for name, line in readings(recipe):
        about.setdefault(line, []).append(name)
    for name, line in pool_defaults(recipe):
        about.setdefault(line, []).append(name)
    for name, line in prompt_faults(recipe):
        about.setdefault(line, []).append(name)
    for name, line in memory_warnings(recipe):
        about.setdefault(line, []).append(name)
    return [f"{_named(stages)}: {line}" for line, stages in about.items()]


def needless_fallbacks(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield (stage, remark) for fallback entries behind an input that always exists."""
    stages = {stage.name: stage for stage in recipe.stages}
    may_be_skipped: set[str] = set()

    def state(ref: StageRef) -> State:
        is_sure = ref.stage not in may_be_skipped and not stages[ref.stage].component.outputs[ref.port].optional
        return State.THERE if is_sure else State.OPEN

    for stage in recipe.stages:
        if stage.conditional or choose(stage.inputs, stage.component, state).may_be_skipped:
            may_be_skipped.add(stage.name)
        for port, references in stage.inputs.items():
            for fallback in (ref for ref in references if isinstance(ref, FirstOf) and ref.picked_by is None):
                sure = [not isinstance(ref, StageRef) or state(ref) is State.THERE for ref in fallback.first_of]
                reached = sure.index(True) if True in sure else len(sure) - 1
                never = [*map(reference_text, fallback.first_of[reached + 1 :]), *["none"][: fallback.or_none]]
                if sure[reached] and never:
                    always = reference_text(fallback.first_of[reached])
                    yield stage.name, f"input {port}: {always} is always made, so {', '.join(never)} is never taken"


def _named(stages: list[str]) -> str:
    return stages[0] if len(stages) == 1 else f"{stages[0]} and {len(stages) - 1} more"
