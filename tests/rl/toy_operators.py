"""Operators that exercise the seams of the loop; `register` makes them known to recipes of a test run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from components.contract.registry import operators
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.as_json import batch_from_json, batch_to_json
from components.rl.batch.batch import Batch
from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import AdvantageConfig, CriticConfig, NoConfig, ObjectiveConfig
from components.rl.step.context import SlotContext


def register() -> None:
    """Register the toy operators."""
    for slot, name in (
        ("critic", "toy_return"),
        ("advantage", "toy_above_value"),
        ("replay", "toy_last_batch"),
        ("objective", "toy_above_quantile"),
    ):
        operators(slot).add(name, f"tests.rl.toy_operators:{name}")


class ToyReturnConfig(CriticConfig):
    """As the base."""


def toy_return(batch: Batch, context: SlotContext, *, config: ToyReturnConfig) -> Tensor:
    """Return [N]: the reward of the response."""
    return batch.to_tokens(batch.rewards)


class ToyAboveValueConfig(AdvantageConfig):
    """Reads the critic."""

    reads: ClassVar[frozenset[str]] = frozenset({"values"})
    writes: ClassVar[frozenset[str]] = frozenset({"seen_n"})


def toy_above_value(batch: Batch, context: SlotContext, *, config: ToyAboveValueConfig) -> Batch:
    """Return the batch with advantage R - V per token, and a mark."""
    return batch.with_advantages(batch.to_tokens(batch.rewards) - batch.values).with_extras(seen_n=batch.values)


def toy_last_batch(batch: Batch, context: SlotContext, *, config: NoConfig) -> Sequence[Batch]:
    """Learn from the step's batch and from that of the step before."""
    saved = context.memory.get("last")
    context.memory["last"] = batch_to_json(batch)
    return [batch] if saved is None else [batch, batch_from_json(saved, context.pool)]


class ToyAboveQuantileConfig(ObjectiveConfig):
    """As the base."""


def toy_above_quantile(
    scores: TokenScores, batch: Batch, context: SlotContext, *, config: ToyAboveQuantileConfig
) -> TokenLoss:
    """Policy gradient on tokens whose entropy is at least the median of the whole minibatch."""
    assert context.minibatch is not None
    median = torch.median(context.minibatch.entropies)
    kept_n = (batch.entropies >= median).float()
    return TokenLoss(-kept_n * batch.advantages * scores.logprobs, {"kept": kept_n})
