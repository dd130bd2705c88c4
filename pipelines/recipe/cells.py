"""Cells: what a stage that compares arms is told of its inputs, namely their stages and labels in the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from components.contract.job import InputRef, StageRef, alternatives
from pipelines.language.problems import Problems
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.draft import StageDraft


def fill_cells(draft: StageDraft, drafts: Mapping[str, StageDraft], problems: Problems) -> None:
    """Fill in the parameters that the draft's component declares as cells, where the recipe does not give them.

    What the labels make of the other parameters is checked again, and noted where they stand.
    """
    component = draft.component
    if component is None or draft.config is None or not component.cells:
        return
    for name, port in component.cells.items():
        if name not in draft.params and draft.inputs.get(port):
            draft.params[name] = [_cell(reference, drafts) for reference in draft.inputs[port]]
    try:
        draft.config = component.params.model_validate(draft.params)
    except ValidationError as error:
        what = f"stage {draft.cell.template.path!r}, with."
        node = draft.given or draft.node
        add_schema_errors(problems, error, node, what=what, schema=component.params)


def _cell(reference: InputRef, drafts: Mapping[str, StageDraft]) -> dict[str, Any]:
    """Return source, stage and labels of an input: of a fallback, those of its first alternative."""
    first = next(alternatives([reference]))
    if not isinstance(first, StageRef):
        return {"stage": "", "labels": {}}
    cell = drafts[first.stage].cell
    labels = {**cell.template.rounds, **cell.labels}
    return {"source": f"{first.stage}.{first.port}", "stage": cell.template.path, "labels": labels}
