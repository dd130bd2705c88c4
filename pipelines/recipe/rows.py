"""Rows between stages: whether the verifiers of a dataset's rows, where the recipe tells them, suit who reads it."""

from __future__ import annotations

from collections.abc import Mapping

from components.contract.job import StageRef
from pipelines.language.problems import Problems
from pipelines.recipe.draft import StageDraft


def check_rows(drafts: Mapping[str, StageDraft], problems: Problems) -> None:
    """Note stages whose operators need of rows what their verifiers do not give."""
    for draft in drafts.values():
        component = draft.component
        if component is None or component.refuses_rows is None or draft.config is None:
            continue
        found = {port: _verifiers(draft, port, drafts) for port in draft.inputs}
        known = {port: names for port, names in found.items() if names is not None}
        for why in component.refuses_rows(draft.config, known):
            given = draft.node.child("in")
            problems.add((given or draft.node).mark, f"stage {draft.cell.template.path!r}: {why}")


def _verifiers(draft: StageDraft, port: str, drafts: Mapping[str, StageDraft]) -> frozenset[str] | None:
    """Return the verifiers that rows of a port may name; None where a producer does not tell."""
    names: set[str] = set()
    for reference in draft.inputs[port]:
        maker = drafts.get(reference.stage) if isinstance(reference, StageRef) else None
        tell = maker.component.row_verifiers if maker is not None and maker.component is not None else None
        told = tell(maker.config) if tell is not None and maker is not None and maker.config is not None else None
        if told is None:
            return None
        names |= set(told)
    return frozenset(names)
