"""Remarks of components on how a recipe uses them: shown by `validate` and `plan`, never an error."""

from __future__ import annotations

from components.contract.job import StageRef
from pipelines.local_files import missing_files
from pipelines.memory import memory_warnings
from pipelines.recipe import Recipe


def advice(recipe: Recipe) -> list[str]:
    """Return each remark once, with the stages that it is about: "rl-seed-0 and 2 more: ..."."""
    made_by = {stage.name: stage.component.name for stage in recipe.stages}
    about: dict[str, list[str]] = {}
    for stage in recipe.stages:
        if stage.component.advice is None:
            continue
        makers = {
            port: [made_by[ref.stage] for ref in refs if isinstance(ref, StageRef) and ref.stage in made_by]
            for port, refs in stage.inputs.items()
        }
        for line in stage.component.advice(stage.config, makers):
            about.setdefault(line, []).append(stage.name)
    for stage, line in missing_files(recipe):
        about.setdefault(line, []).append(stage.name)
    for name, line in memory_warnings(recipe):
        about.setdefault(line, []).append(name)
    return [f"{_named(stages)}: {line}" for line, stages in about.items()]


def _named(stages: list[str]) -> str:
    return stages[0] if len(stages) == 1 else f"{stages[0]} and {len(stages) - 1} more"
