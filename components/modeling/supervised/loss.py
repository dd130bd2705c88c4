"""Next-token loss of a batch of examples, independent of how it is cut into forward passes.

loss = -(sum over targets of weight * log-probability) / (sum over targets of weight), over the whole batch. A mixture
of experts whose config asks for it adds its load-balancing loss, of each pass by its share of the tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rank_batches
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.packed import Packed
from components.modeling.supervised.examples import Example
from components.modeling.training.trainer import Trainer


@dataclass(frozen=True)
class BatchLoss:
    """The loss of one batch, in total and by domain."""

    loss: float
    """Weighted mean negative log-likelihood per target, in nats."""
    num_targets: int
    by_domain: dict[str, float]
    """The same mean over the targets of each domain."""


def domain_losses(result: BatchLoss, name: str) -> dict[str, float]:
    """Return the losses per domain as metrics "<name>_<domain>", in characters that metric names allow.

    Empty for a single domain, whose loss is the total.
    """
    if len(result.by_domain) < 2:
        return {}
    safe = {domain: re.sub(r"[^A-Za-z0-9_]+", "_", domain or "unnamed") for domain in result.by_domain}
    return {f"{name}_{safe[domain]}": loss for domain, loss in result.by_domain.items()}


def accumulate_gradients(trainer: Trainer, batch: Sequence[Example], *, max_tokens: int) -> BatchLoss:
    """Add the gradient of the batch's loss to the parameters, in passes of at most `max_tokens` tokens."""
    lengths = [len(example.tokens) for example in batch]
    denominator, num_tokens = _denominator(batch), sum(lengths)
    parts = rank_batches(lengths, max_tokens, trainer.ranks.count)

    def loss_of(chosen: list[int]) -> tuple[Tensor, list[float]]:
        part = [batch[index] for index in chosen]
        packed, logprobs = _logprobs(trainer.policy, part, keep_last=trainer.policy.asks_for_balance)
        weights = torch.tensor([example.weight for example in part], device=trainer.policy.device)
        loss = -(logprobs * weights[packed.sequence]).sum() / denominator
        if (balance := trainer.policy.take_router_loss()) is not None:  # of each pass by its share of the tokens
            loss = loss + balance * (sum(lengths[index] for index in chosen) / num_tokens)
        return loss, _sums(packed, logprobs)

    with trainer.policy.balancing_experts():
        found = trainer.accumulate(parts, loss_of)
    return _batch_loss(batch, parts, found, denominator)


def evaluate_loss(policy: Policy, examples: Sequence[Example], *, max_tokens: int) -> BatchLoss:
    """Return the loss over `examples` without touching any gradient."""
    denominator = _denominator(examples)
    parts = list(micro_batches([len(example.tokens) for example in examples], max_tokens))
    with torch.no_grad():
        sums = [_sums(*_logprobs(policy, [examples[index] for index in chosen])) for chosen in parts]
    return _batch_loss(examples, parts, sums, denominator)


def _denominator(batch: Sequence[Example]) -> float:
    denominator = sum(example.weight * example.num_targets for example in batch)
    if denominator <= 0:
        raise InputError(f"a batch of {len(batch)} examples has no target to train on")
    return denominator


def _logprobs(policy: Policy, part: Sequence[Example], *, keep_last: bool = False) -> tuple[Packed, Tensor]:
    """Return the pack of some examples and its targets' log-probabilities.

    With `keep_last`, routers see the last token of each example, too, which predicts nothing.
    """
    packed = Packed.from_sequences(
        [example.tokens for example in part],
        policy.device,
        masks=[example.loss_mask for example in part],
        keep_last=keep_last,
    )
    return packed, policy.target_logprobs(packed).logprobs


def _sums(packed: Packed, logprobs: Tensor) -> list[float]:
    """Return for each sequence of a pack the sum of its targets' log-probabilities."""
    totals = torch.zeros(packed.num_sequences, dtype=torch.float64, device=logprobs.device)
    return totals.index_add_(0, packed.sequence, logprobs.detach().double()).tolist()


def _batch_loss(
    batch: Sequence[Example], parts: Sequence[list[int]], found: Sequence[list[float]], denominator: float
) -> BatchLoss:
    """Return the loss from the log-probability sums of each part's sequences."""
    sums = [0.0] * len(batch)
    for chosen, totals in zip(parts, found, strict=True):
        for index, total in zip(chosen, totals, strict=True):
            sums[index] = -total
    num_targets = [example.num_targets for example in batch]
    return BatchLoss(
        loss=math.fsum(example.weight * s for example, s in zip(batch, sums, strict=True)) / denominator,
        num_targets=sum(num_targets),
        by_domain=_by_domain(batch, sums, num_targets),
    )


def _by_domain(batch: Sequence[Example], sums: Sequence[float], counts: Sequence[int]) -> dict[str, float]:
    found: dict[str, tuple[float, float]] = {}
    for example, total, count in zip(batch, sums, counts, strict=True):
        loss, weight = found.get(example.domain, (0.0, 0.0))
        found[example.domain] = (loss + example.weight * total, weight + example.weight * count)
    return {domain: loss / weight for domain, (loss, weight) in sorted(found.items()) if weight}
