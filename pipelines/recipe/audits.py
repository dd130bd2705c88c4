"""Audits: a stage with `integrity` gets another one before it, which audits its reward with the same parameters.

This is the one place where `integrity` is expanded. `required` stops the run where the audit finds something.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.contract.component import Component
from components.contract.registry import components
from pipelines.language.problems import Problems, shown
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.unroll import MAX_STAGE_NAME, Cell

SOUND = "num_exploits == 0"
"""What an audit must find where it is required."""


def with_audits(drafts: Mapping[str, StageDraft], problems: Problems) -> dict[str, StageDraft]:
    """Return the drafts, each audit before the stage that it is of; what cannot be audited is noted."""
    found: dict[str, StageDraft] = {}
    for name, draft in drafts.items():
        audit = _audit_of(draft, drafts, problems)
        if audit is not None:
            found[audit.cell.name] = audit
        found[name] = draft
    return found


def _audit_of(draft: StageDraft, drafts: Mapping[str, StageDraft], problems: Problems) -> StageDraft | None:
    """Return the audit of a stage, and let the stage wait for it; None if none is asked for, or it cannot be."""
    component = draft.component
    if draft.words.integrity is None or component is None or draft.config is None:
        return None
    if not component.audited_by:
        written = draft.node.child("integrity")
        if written is not None:  # a recipe's defaults hold for the stages that can be audited
            what = (
                f"stage {draft.cell.template.path!r}, integrity: {component.name} has no reward to audit; leave it out"
            )
            problems.add(written.where, what)
        return None
    cell = draft.cell.added("-integrity")
    if cell.name in drafts or len(cell.name) > MAX_STAGE_NAME:
        why = "is there already; rename it" if cell.name in drafts else f"has more than {MAX_STAGE_NAME} characters"
        problems.add(draft.node.where, f"stage {shown(cell.name)}, which audits {draft.cell.name!r}, {why}")
        return None
    audit = _draft(draft, cell, components().get(component.audited_by))
    draft.needs[cell.name] = draft.node.where
    return audit


def _draft(draft: StageDraft, cell: Cell, component: Component) -> StageDraft:
    """Return the draft of an audit: the stage's parameters and inputs, without what concerns its result."""
    params = copy.deepcopy(draft.params)
    result: dict[str, Any] = {"expect": [], "registration": None, "approve": None, "alarms": {}, "integrity": None}
    return replace(
        draft,
        cell=cell,
        words=draft.words.model_copy(update=result),
        component=component,
        params=params,
        config=component.params.model_validate(params),
        inputs={port: list(found) for port, found in draft.inputs.items() if port in component.inputs},
        settings=list(draft.settings),
        gate=[SOUND] if draft.words.integrity == "required" else [],
        gated_by={},
        needs=dict(draft.needs),
        keep_partial=None,
    )
