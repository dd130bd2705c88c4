"""Tags and documentation that Airflow shows for a recipe and its stages. Imports no Airflow."""

from __future__ import annotations

from textwrap import shorten

from components.contract.display import Role
from components.contract.job import reference_text
from pipelines.engines.airflow.catalog import is_reproduction
from pipelines.engines.airflow.names import TAG
from pipelines.recipe.grammar import format_duration
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

MAX_TEXT = 20_000
"""Most characters of a recipe's text shown; the file has the rest."""
MAX_SUMMARY = 90
"""Most characters of a summary in a title."""
TRAINING = (Role.PRETRAINING, Role.TRAINING)


def recipe_tags(recipe: Recipe) -> list[str]:
    """Return a DAG's tags: ours, the kind of recipe, what it trains by, and the pools of its stages."""
    kind = "method" if is_reproduction(recipe.path) else "system" if recipe.system else "recipe"
    trains = {f"trains:{stage.component.name}" for stage in recipe.stages if stage.component.role in TRAINING}
    pools = {f"pool:{stage.pool}" for stage in recipe.stages}
    return [f"kind:{kind}", *sorted(pools), TAG, *sorted(trains)]


def display_name(name: str, recipe: Recipe) -> str:
    """Return a DAG's title: its name and the beginning of its summary, which Airflow's cards do not show otherwise."""
    summary = shorten(recipe.summary, MAX_SUMMARY, placeholder=" ...")
    return f"{name}: {summary}" if summary else name


def recipe_docs(recipe: Recipe) -> str:
    """Return Markdown on a recipe: its purpose, its stages and parameters, and its text."""
    fence = "~~~~"
    text = recipe.text if len(recipe.text) <= MAX_TEXT else f"{recipe.text[:MAX_TEXT]}\n# ..."
    stages = [[stage.title, stage.component.name, stage.pool, stage.summary] for stage in recipe.stages]
    values = [[item.name, item.words.title, f"`{item.value}`"] for item in recipe.parameters]
    parts = [
        recipe.summary,
        _table(["stage", "component", "pool", ""], stages),
        _table(["parameter", "", "default"], values) if values else "",
        f"{fence}yaml\n{text.rstrip()}\n{fence}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


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


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; a cell's text stays in its cell."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
