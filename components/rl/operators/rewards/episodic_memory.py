"""Memory-R+: near to what was right on similar prompts, far from what was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch
    from components.rl.exploration.episodes import Episodes

FIXED = 20_250_402
"""Seed of the projection, which is the same in a whole run."""


class EpisodicMemoryConfig(RewardConfig):
    """The two parts, and what is remembered."""

    exploit: float = Field(default=1.0, ge=0)
    """Weight of being near to right responses."""
    explore: float = Field(default=1.0, ge=0)
    """Weight of being far from wrong responses."""
    neighbours: int = Field(default=1, ge=1)
    """k: nearest prompts whose responses are compared."""
    explore_after: int = Field(default=500, ge=0)
    """Prompts with wrong responses before the exploring part begins."""
    prompts: int = Field(default=10_000, ge=1)
    """Prompts in each memory; the oldest goes first."""
    responses: int = Field(default=100, ge=1)
    """Responses of each prompt; the oldest goes first."""
    capacity: int = Field(default=20_000, ge=1)
    """Responses of all prompts in each memory: bounds a checkpoint."""
    window: int = Field(default=100, ge=1)
    """Latest distances whose least and largest become 0 and 1."""
    dimensions: int | None = Field(default=64, ge=1)
    """Width of what is stored, by a fixed sparse random projection; null for the model's own."""


def episodic_memory(batch: Batch, context: SlotContext, *, config: EpisodicMemoryConfig) -> Tensor:
    """Return [S]: exploit * (1 - D) + explore * N, each between 0 and 1 before its weight.

    D: distance from the mean of right responses to the nearest prompts. N: 1 - the largest cosine to wrong responses to
    the nearest prompts. Both are scaled by the least and the largest of the latest ones. A part is 0 while its memory
    is empty, where all of the latest are equal, and N before `explore_after`. A response is stored before it is
    compared, so a wrong one has N = 0. Features of prompts and responses are mean hidden states of the starting policy.
    Metrics: `memory_exploit`, `memory_explore` (means), `memory_right`, `memory_wrong` (responses stored).
    Source: Le et al. 2025, Reasoning Under 1 Billion (arXiv:2504.02273), and its released code, which encodes texts
    with a sentence encoder, gives the raw distance where all of a window are equal, and N = 1 from an empty memory.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.exploration.episodes import Bounds, Episodes

    bounds = Bounds(config.prompts, config.responses, config.capacity, config.window)
    right, wrong = (Episodes(bounds, context.memory.get(name)) for name in ("right", "wrong"))
    keys, values = _features(batch, context, config.dimensions)
    groups, outcomes = batch.of_traces(batch.group).tolist(), batch.of_traces(batch.outcomes == RIGHT).tolist()
    parts = torch.zeros(2, batch.num_traces)
    for at, (group, is_right) in enumerate(zip(groups, outcomes, strict=True)):
        (right if is_right else wrong).insert(batch.prompts[group].item.id, keys[group], values[at])
        parts[0, at] = exploiting(right, keys[group], values[at], config.neighbours)
        if len(wrong.keys) >= config.explore_after:
            parts[1, at] = exploring(wrong, keys[group], values[at], config.neighbours)
    context.memory.update(right=right.state(), wrong=wrong.state())
    if batch.num_traces:
        context.metrics.update(zip(("memory_exploit", "memory_explore"), parts.mean(1).tolist(), strict=True))
    context.metrics.update(memory_right=float(right.num_responses), memory_wrong=float(wrong.num_responses))
    return batch.to_rows(config.exploit * parts[0] + config.explore * parts[1])


def exploiting(right: Episodes, key: Tensor, value: Tensor, neighbours: int) -> float:
    """Return 1 - the scaled distance of a response [D] from the mean of those to the nearest prompts; 0 if unknown."""
    found = right.nearest(key, neighbours)
    if found is None:
        return 0.0
    scaled = right.scaled(float((value - found.mean(0)).norm()))
    return 0.0 if scaled is None else 1.0 - scaled


def exploring(wrong: Episodes, key: Tensor, value: Tensor, neighbours: int) -> float:
    """Return the scaled 1 - largest cosine of a response [D] to those to the nearest prompts; 0 if unknown."""
    import torch

    found = wrong.nearest(key, neighbours)
    if found is None:
        return 0.0
    return wrong.scaled(1.0 - float(torch.cosine_similarity(found, value, dim=1).max())) or 0.0


def _features(batch: Batch, context: SlotContext, dimensions: int | None) -> tuple[Tensor, Tensor]:
    """Return features [P, d] of prompts and [T, d] of responses, under the starting policy."""
    import torch

    from components.measure.formulas.leverage import sparse_projection
    from components.rl.step.scoring import prompt_hidden
    from components.rl.step.states import response_features

    policy, max_tokens = context.policies.start, context.collector.max_tokens
    prompts = [
        rows.float().mean(0) for rows in prompt_hidden(policy, batch.prompts, layer="final", max_tokens=max_tokens)
    ]
    keys = torch.stack(prompts) if prompts else torch.zeros(0, policy.width)
    values = batch.of_traces(response_features(policy, batch, max_tokens=max_tokens))
    if dimensions is None or dimensions >= keys.shape[1]:
        return keys, values
    projection = sparse_projection(keys.shape[1], dimensions, torch.Generator().manual_seed(FIXED)).float()
    return keys @ projection, values @ projection
