"""Next-token loss of a batch of examples, whatever forward passes it is cut into.

loss = -(sum over targets of weight * log-probability) / (sum over targets of weight), over the whole batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from components.contract.errors import InputError
from components.modeling.batching import micro_batches
from components.modeling.examples import Example
from components.modeling.packed import Packed
from components.modeling.policy import Policy


@dataclass(frozen=True)
class BatchLoss:
    """The loss of one batch, with its parts."""

    loss: float
    """Weighted mean negative log-likelihood per target, in nats."""
    num_targets: int
    by_domain: dict[str, float]
    """The same mean over the targets of each domain."""


def domain_losses(result: BatchLoss, name: str) -> dict[str, float]:
    """Return the losses per domain as metrics "<name>_<domain>", with characters that metric names allow.

    Empty for a single domain, whose loss is the loss.
    """
    if len(result.by_domain) < 2:
        return {}
    safe = {domain: re.sub(r"[^A-Za-z0-9_]+", "_", domain or "unnamed") for domain in result.by_domain}
    return {f"{name}_{safe[domain]}": loss for domain, loss in result.by_domain.items()}


def accumulate_gradients(policy: Policy, batch: Sequence[Example], *, max_tokens: int) -> BatchLoss:
    """Add the gradient of the batch's loss to the parameters, in passes of at most `max_tokens` tokens."""
    return _batch_loss(policy, batch, max_tokens, backward=True)


def evaluate_loss(policy: Policy, examples: Sequence[Example], *, max_tokens: int) -> BatchLoss:
    """Return the loss over `examples` without touching any gradient."""
    with torch.no_grad():
        return _batch_loss(policy, examples, max_tokens, backward=False)


def _batch_loss(policy: Policy, batch: Sequence[Example], max_tokens: int, *, backward: bool) -> BatchLoss:
    num_targets = [example.num_targets for example in batch]
    denominator = sum(example.weight * n for example, n in zip(batch, num_targets, strict=True))
    if denominator <= 0:
        raise InputError(f"a batch of {len(batch)} examples has no target to train on")
    sums = [0.0] * len(batch)
    for chosen in micro_batches([len(example.tokens) for example in batch], max_tokens):
        part = [batch[index] for index in chosen]
        packed = Packed.from_sequences(
            [example.tokens for example in part],
            policy.device,
            masks=[example.loss_mask for example in part],
        )
        logprobs = policy.target_logprobs(packed).logprobs
        if backward:
            weights = torch.tensor([example.weight for example in part], device=policy.device)
            (-(logprobs * weights[packed.sequence]).sum() / denominator).backward()
        totals = torch.zeros(len(part), dtype=torch.float64, device=policy.device)
        totals.index_add_(0, packed.sequence, logprobs.detach().double())
        for index, total in zip(chosen, totals.tolist(), strict=True):
            sums[index] = -total
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
