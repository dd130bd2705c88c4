"""Loss of a batch of examples, independent of how it is cut into forward passes.

loss = (sum over targets of weight * loss of a target) / (sum over targets of weight), over the whole batch. The loss of
a target is its negative log-likelihood, unless an objective says otherwise. A mixture of experts whose config asks for
it adds its load-balancing loss, of each pass by its share of the tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rank_batches
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.packed import Packed
from components.modeling.supervised.examples import Example
from components.modeling.training.trainer import Trainer

LOSS = "loss"
"""Name of the values of targets that are trained."""
Objective = Callable[[Policy, Packed, Sequence[Example]], Mapping[str, Tensor]]
"""From a policy, the pack of some examples, and these: values [M] of the targets by name, with LOSS among them."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss of one batch, in total and by domain."""

    loss: float
    """Weighted mean loss per target, in nats; by default of the negative log-likelihood."""
    num_targets: int
    by_domain: dict[str, float]
    """The same mean over the targets of each domain."""
    parts: dict[str, float] = field(default_factory=dict)
    """Weighted means per target of what else the objective returned, by name."""


def likelihood(policy: Policy, packed: Packed, part: Sequence[Example]) -> dict[str, Tensor]:
    """Return the negative log-likelihood of each target."""
    return {LOSS: -policy.target_logprobs(packed).logprobs}


def domain_losses(result: BatchLoss, name: str) -> dict[str, float]:
    """Return the losses per domain as metrics "<name>_<domain>", in characters that metric names allow.

    Empty for a single domain, whose loss is the total.
    """
    if len(result.by_domain) < 2:
        return {}
    safe = {domain: re.sub(r"[^A-Za-z0-9_]+", "_", domain or "unnamed") for domain in result.by_domain}
    return {f"{name}_{safe[domain]}": loss for domain, loss in result.by_domain.items()}


def accumulate_gradients(
    trainer: Trainer, batch: Sequence[Example], *, max_tokens: int, objective: Objective = likelihood
) -> BatchLoss:
    """Add the gradient of the batch's loss to the parameters, in passes of at most `max_tokens` tokens."""
    lengths = [example.longest for example in batch]
    denominator, num_tokens = _denominator(batch), sum(lengths)
    parts = rank_batches(lengths, max_tokens, trainer.ranks.count)

    def loss_of(chosen: list[int]) -> tuple[Tensor, dict[str, list[float]]]:
        part = [batch[index] for index in chosen]
        packed = _packed(trainer.policy, part, keep_last=trainer.policy.asks_for_balance)
        values = objective(trainer.policy, packed, part)
        weights = torch.tensor([example.weight for example in part], device=trainer.policy.device)
        loss = (values[LOSS] * weights[packed.sequence]).sum() / denominator
        if (balance := trainer.policy.take_router_loss()) is not None:  # of each pass by its share of the tokens
            loss = loss + balance * (sum(lengths[index] for index in chosen) / num_tokens)
        return loss, _sums(packed, values)

    with trainer.policy.balancing_experts():
        found = trainer.accumulate(parts, loss_of)
    return _batch_loss(batch, parts, found, denominator)


def evaluate_loss(policy: Policy, examples: Sequence[Example], *, max_tokens: int) -> BatchLoss:
    """Return the negative log-likelihood of `examples` without touching any gradient."""
    denominator = _denominator(examples)
    parts = list(micro_batches([len(example.tokens) for example in examples], max_tokens))
    sums = []
    with torch.no_grad():
        for part in ([examples[index] for index in chosen] for chosen in parts):
            packed = _packed(policy, part)
            sums.append(_sums(packed, likelihood(policy, packed, part)))
    return _batch_loss(examples, parts, sums, denominator)


def _denominator(batch: Sequence[Example]) -> float:
    denominator = sum(example.weight * example.num_targets for example in batch)
    if denominator <= 0:
        raise InputError(f"a batch of {len(batch)} examples has no target to train on")
    return denominator


def _packed(policy: Policy, part: Sequence[Example], *, keep_last: bool = False) -> Packed:
    """Return the pack of some examples.

    With `keep_last`, routers see the last token of each example, too, which predicts nothing.
    """
    return Packed.from_sequences(
        [example.tokens for example in part],
        policy.device,
        masks=[example.loss_mask for example in part],
        keep_last=keep_last,
    )


def _sums(packed: Packed, values: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Return for each sequence of a pack the sum of its targets' values, by name."""
    found = {}
    for name, each in values.items():
        totals = torch.zeros(packed.num_sequences, dtype=torch.float64, device=each.device)
        found[name] = totals.index_add_(0, packed.sequence, each.detach().double()).tolist()
    return found


def _batch_loss(
    batch: Sequence[Example], parts: Sequence[list[int]], found: Sequence[dict[str, list[float]]], denominator: float
) -> BatchLoss:
    """Return the loss from the sums of each part's sequences."""
    sums = {name: [0.0] * len(batch) for name in found[0]}
    for chosen, of_part in zip(parts, found, strict=True):
        for name, totals in of_part.items():
            for index, total in zip(chosen, totals, strict=True):
                sums[name][index] = total
    num_targets = [example.num_targets for example in batch]
    means = {
        name: math.fsum(example.weight * s for example, s in zip(batch, each, strict=True)) / denominator
        for name, each in sums.items()
    }
    return BatchLoss(
        loss=means.pop(LOSS),
        num_targets=sum(num_targets),
        by_domain=_by_domain(batch, sums[LOSS], num_targets),
        parts=means,
    )


def _by_domain(batch: Sequence[Example], sums: Sequence[float], counts: Sequence[int]) -> dict[str, float]:
    found: dict[str, tuple[float, float]] = {}
    for example, total, count in zip(batch, sums, counts, strict=True):
        loss, weight = found.get(example.domain, (0.0, 0.0))
        found[example.domain] = (loss + example.weight * total, weight + example.weight * count)
    return {domain: loss / weight for domain, (loss, weight) in sorted(found.items()) if weight}
