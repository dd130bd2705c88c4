"""Documentation that Airflow shows for a recipe and its stages. Imports no Airflow."""

from __future__ import annotations

from components.contract.job import reference_text
from pipelines.recipe.grammar import format_duration
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

MAX_TEXT = 20_000
"""Most characters of a recipe's text shown; the file has the rest."""


def recipe_docs(recipe: Recipe) -> str:
    """Return Markdown on a recipe: its purpose and its text."""
    text = recipe.text if len(recipe.text) <= MAX_TEXT else f"{recipe.text[:MAX_TEXT]}\n# ..."
    fence = "~~~~"
    return f"{recipe.summary}\n\n{fence}yaml\n{text.rstrip()}\n{fence}\n"


def stage_docs(stage: Stage) -> str:
    """Return Markdown on a stage: what it does, its inputs and parameters, and its conditions."""
    lines = [f"**{stage.component.name}**: {stage.summary or stage.component.summary}", ""]
    for port, references in stage.inputs.items():
        lines.append(f"- in `{port}`: {', '.join(f'`{reference_text(ref)}`' for ref in references)}")
    lines += [f"- `{name}` = `{value}`" for name, value in stage.params.items()]
    lines += [f"- only if `{stage.when}`"] if stage.when else []
    lines += [f"- afterwards `{text}` must hold" for text in stage.gate]
    lines += [f"- rows of `{expectation.port}`: `{expectation.type}`" for expectation in stage.expect]
    if stage.register_as:
        lines.append(f"- registers `{stage.register_as}` as {', '.join(stage.register_aliases)}")
    if stage.timeout_seconds is not None:
        lines.append(f"- may take {format_duration(stage.timeout_seconds)}")
    return "\n".join(lines)
