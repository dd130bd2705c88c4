"""Shards: a stage that divides its work becomes a stage for each shard, and itself, which joins what they made.

This is the one place where `shards: N` is expanded. A recipe refers to the stage that joins; engines, plans and the
lineage see plain stages.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.contract.component import Component
from components.contract.job import StageRef
from components.contract.params import Params
from components.contract.sharding import Sharding
from pipelines.language.problems import Problems, shown
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.grammar import MAX_STAGES
from pipelines.recipe.unroll import MAX_STAGE_NAME, Cell


def with_shards(drafts: Mapping[str, StageDraft], problems: Problems) -> dict[str, StageDraft]:
    """Return the drafts with those of shards before the stages that join them; what cannot be divided is noted."""
    found: dict[str, StageDraft] = {}
    for name, draft in drafts.items():
        for shard in _shards_of(draft, drafts, problems):
            found[shard.cell.name] = shard
        found[name] = draft
    if len(found) > MAX_STAGES >= len(drafts):
        last = list(drafts.values())[-1]
        problems.add(last.node.where, f"with its shards the recipe has more than {MAX_STAGES} stages")
    return found


def _shards_of(draft: StageDraft, drafts: Mapping[str, StageDraft], problems: Problems) -> list[StageDraft]:
    """Return the shards of a draft, and connect them with it; none if it is not divided or cannot be."""
    component, config = draft.component, draft.config
    sharding = component.sharding if component else None
    if component is None or config is None or sharding is None:
        return []
    if not _is_connected_here(draft, sharding, problems):
        return []
    count = sharding.count(config)
    if count is None or not _can_be_divided(draft, drafts, count, problems):
        return []
    shards = [_shard(draft, component, sharding, index, count) for index in range(count)]
    draft.inputs[sharding.port] = [StageRef(stage=shard.cell.name, port=sharding.output) for shard in shards]
    for shard in shards:
        draft.needs[shard.cell.name] = draft.node.where
    return shards


def _is_connected_here(draft: StageDraft, sharding: Sharding, problems: Problems) -> bool:
    """Return whether the input for shards is left to this module, or note where it is not."""
    inputs = draft.node.child("in")
    written = inputs.child(sharding.port) if inputs is not None and sharding.port in draft.inputs else None
    if written is None:
        return True
    what = f"stage {draft.cell.template.path!r}, in.{sharding.port}"
    instead = f"leave it out, and set 'with: {{{sharding.counted}: N}}'"
    problems.add(written.where, f"{what}: the recipe connects what its own shards made; {instead}")
    return False


def _can_be_divided(draft: StageDraft, drafts: Mapping[str, StageDraft], count: int, problems: Problems) -> bool:
    """Return whether a stage can have shards, noting why it cannot."""
    path, before = draft.cell.template.path, len(problems)
    if draft.words.approve is not None:
        question = draft.node.child("approve")
        why = "its shards would have run before the question; ask before a stage that it needs"
        problems.add((question or draft.node).where, f"stage {path!r}, approve: {why}")
    names = [_cell(draft.cell, index, count).name for index in range(count)]
    if taken := next((name for name in (*names, f"{draft.cell.name}-shards") if name in drafts), None):
        what = f"stage {taken!r} is also what a shard of {path!r} is called; rename one"
        problems.add(drafts[taken].node.where, what)
    if len(names[-1]) > MAX_STAGE_NAME:
        problems.add(draft.node.where, f"stage {shown(names[-1])}: a shard with more than {MAX_STAGE_NAME} characters")
    return len(problems) == before


def _shard(draft: StageDraft, component: Component, sharding: Sharding, index: int, count: int) -> StageDraft:
    """Return the draft of one shard: the stage's work on a share, without what concerns its result."""
    params = sharding.params_of(copy.deepcopy(draft.params), index, count)
    config: Params = component.params.model_validate(params)
    result: dict[str, Any] = {"expect": [], "registration": None, "gate": []}
    left_out = (sharding.counted, *sharding.joins)
    return replace(
        draft,
        cell=_cell(draft.cell, index, count),
        words=draft.words.model_copy(update=result),
        component=component.formed(config),
        params=params,
        config=config,
        inputs={port: list(found) for port, found in draft.inputs.items() if port in sharding.inputs},
        settings=[setting for setting in draft.settings if setting.path[0] not in left_out],
        gate=[],
        gated_by={},
        needs=dict(draft.needs),
        shard_of=draft.cell.name,
    )


def _cell(cell: Cell, index: int, count: int) -> Cell:
    """Return the cell of a shard."""
    return cell.added(f"-shard-{index:0{max(2, len(str(count - 1)))}d}")
