"""Memory of the training of a reward model: as any training's, without logits, and with both sides of a pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.modeling.estimates.memory_knobs import knobs
from components.modeling.estimates.memory_needs import training_needs
from components.modeling.models.model_sizes import ModelSizes
from components.reward_model.config import ScorerLossConfig

if TYPE_CHECKING:
    from components.reward_model.params import RewardModelParams


def memory(params: RewardModelParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of the training; None if the model's sizes are unknown."""
    if model is None:
        return None
    needs_of = partial(_needs, model)
    return MemoryEstimate(
        tuple(needs_of(params, resources)),
        resources.ranks_per_node,
        model,
        knobs(needs_of, params, resources, 0.0),
        model.why_not_parted(resources.tensor_parallel),
    )


def _needs(sizes: ModelSizes, params: RewardModelParams, resources: Resources, share: float = 0.0) -> Iterator[Need]:
    config = params.scorer_loss.resolve().config
    texts = 2 if isinstance(config, ScorerLossConfig) and config.rows == "preferences" else 1
    longest = texts * params.max_tokens
    batch = params.batch_size * longest
    tokens = max(longest, min(params.micro_batch_tokens, -(-batch // resources.data_ranks)))
    for need in training_needs(
        sizes,
        resources,
        dtype=params.dtype,
        optimizer=params.optimizer.name,
        lora=params.lora,
        pass_tokens=tokens,
        longest=params.max_tokens,
    ):
        yield replace(need, size=0.0) if need.name == "logits" else need
