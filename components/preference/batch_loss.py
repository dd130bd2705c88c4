"""Loss of a batch of comparisons, independent of how it is cut into forward passes.

loss = (sum over examples of weight * loss of an example) / (sum of weights)
     + sft * (sum over preferred responses of weight * negative log-likelihood) / (sum of weight * tokens of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rank_batches
from components.modeling.training.trainer import Trainer
from components.preference.compared import Compared, Loss
from components.preference.comparisons import Comparison
from components.preference.loss_config import PreferenceLossConfig
from components.preference.scoring import frozen_logprobs, response_logprobs

LOSS, ACCURACY, MARGIN, RATIO, NLL, TOKENS = "loss", "accuracy", "margin", "log_ratio", "nll", "tokens"
PREFERRED, OTHER = "chosen", "rejected"
"""What values of preferred responses and of all others are called; of a list, the best and the rest."""
Told = dict[str, list[float]]


@dataclass(frozen=True)
class Referred:
    """A comparison with what the reference says of it."""

    comparison: Comparison
    logprobs: tuple[float, ...]
    """Of its responses, and of the other row's response if it has one."""


@dataclass(frozen=True)
class ComparedBatch:
    """The loss of one batch, and what stands behind it."""

    loss: float
    num_targets: int
    parts: dict[str, float] = field(default_factory=dict)
    by_domain: dict[str, float] = field(default_factory=dict)
    """The same loss of the examples of each domain alone."""


def accumulate_gradients(trainer: Trainer, batch: Sequence[Referred], loss: Bound, *, max_tokens: int) -> ComparedBatch:
    """Add the gradient of the batch's loss to the parameters, in passes of at most `max_tokens` tokens."""
    costs = [one.comparison.num_tokens for one in batch]
    policy = trainer.policy
    measured = partial(divergence_of, policy, batch, max_tokens)
    divergence = trainer.evaluate(measured) if _config(loss).divergence else 0.0
    parts = rank_batches(costs, max_tokens, trainer.ranks.count)
    weight, tokens = _denominators(batch)

    def loss_of(chosen: list[int]) -> tuple[Tensor, Told]:
        part = [batch[index] for index in chosen]
        found, told = _part_loss(policy, part, loss, divergence, weight, tokens)
        if (balance := policy.take_router_loss()) is not None:  # of each pass by its share of the tokens
            found = found + balance * (sum(costs[index] for index in chosen) / sum(costs))
        return found, told

    with policy.balancing_experts():
        told = trainer.accumulate(parts, loss_of)
    return _whole(batch, parts, told, loss, divergence)


def evaluate_batch(policy: Policy, batch: Sequence[Referred], loss: Bound, *, max_tokens: int) -> tuple[float, Told]:
    """Return the mean loss of comparisons, and what is told of each, without touching any gradient."""
    costs = [one.comparison.num_tokens for one in batch]
    config = _config(loss)
    divergence = divergence_of(policy, batch, max_tokens) if config.divergence else 0.0
    parts = rank_batches(costs, max_tokens, 1)
    weight, tokens = _denominators(batch)
    with torch.no_grad():
        told = [_part_loss(policy, [batch[at] for at in part], loss, divergence, weight, tokens)[1] for part in parts]
    return _whole(batch, parts, told, loss, divergence).loss, _in_order(batch, parts, told)


def divergence_of(policy: Policy, batch: Sequence[Referred], max_tokens: int) -> float:
    """Return the mean log-ratio of the batch's prompts with responses of other rows, at least 0."""
    groups = [(one.comparison.prompt, (one.comparison.other,), ()) for one in batch if one.comparison.other]
    reference = torch.tensor([one.logprobs[-1] for one in batch if one.comparison.other])
    return max(0.0, float((frozen_logprobs(policy, groups, max_tokens=max_tokens) - reference).mean()))


def _config(loss: Bound) -> PreferenceLossConfig:
    assert isinstance(loss.config, PreferenceLossConfig), "the slot checks it"
    return loss.config


def _denominators(batch: Sequence[Referred]) -> tuple[float, float]:
    """Return the sum of weights, and that of weights times preferred tokens."""
    comparisons = [one.comparison for one in batch]
    return sum(one.weight for one in comparisons), sum(one.weight * one.num_preferred for one in comparisons)


def _part_loss(
    policy: Policy, part: Sequence[Referred], loss: Bound, divergence: float, weight: float, tokens: float
) -> tuple[Tensor, Told]:
    """Return the share that some examples have in the batch's loss, and what is told of each."""
    groups = [(one.comparison.prompt, one.comparison.responses, one.comparison.masks) for one in part]
    logprobs = response_logprobs(policy, groups, keep_last=policy.asks_for_balance)
    compared = _compared(part, logprobs, divergence)
    found: Loss = loss(compared)
    if found.loss.shape != compared.margins.shape:
        raise loss.failed(f"returned losses of shape {list(found.loss.shape)} for {len(part)} examples")
    weights = logprobs.new_tensor([one.comparison.weight for one in part])
    total = (weights * found.loss).sum() / weight
    firsts = _firsts(part, logprobs.device)
    if (sft := _config(loss).sft) and tokens:
        preferred = logprobs.new_tensor([float(one.comparison.is_preferred) for one in part])
        total = total - sft * (weights * preferred * logprobs[firsts]).sum() / tokens
    return total, _told(part, compared, found)


def _compared(part: Sequence[Referred], logprobs: Tensor, divergence: float) -> Compared:
    """Return what a loss reads of the responses [S] of some examples."""
    comparisons = [one.comparison for one in part]
    counts = [len(one.responses) for one in comparisons]
    each = zip(part, counts, strict=True)
    reference = [value for one, count in each for value in (one.logprobs or (0.0,) * count)[:count]]
    return Compared(
        logprobs=logprobs,
        reference=logprobs.new_tensor(reference),
        lengths=logprobs.new_tensor([float(count) for one in comparisons for count in one.compared]),
        scores=logprobs.new_tensor([score for one in comparisons for score in one.scores]),
        example=torch.repeat_interleave(torch.tensor(counts)).to(logprobs.device),
        margins=logprobs.new_tensor([one.margin for one in comparisons]),
        divergence=logprobs.new_tensor(divergence),
    )


def _firsts(part: Sequence[Referred], device: torch.device) -> Tensor:
    """Return [E]: the index of each example's first response."""
    counts = torch.tensor([len(one.comparison.responses) for one in part])
    return (counts.cumsum(0) - counts).to(device)


def _told(part: Sequence[Referred], compared: Compared, found: Loss) -> Told:
    """Return, for each example, its loss, accuracy and margin, and sums over its preferred and its other responses."""
    logprobs, ratios = (values.detach().double().cpu() for values in (compared.logprobs, compared.log_ratios()))
    told: Told = {
        LOSS: found.loss.detach().double().tolist(),
        ACCURACY: found.right.detach().double().tolist(),
        MARGIN: found.margin.detach().double().tolist(),
    }
    at = 0
    for one in part:
        count = len(one.comparison.responses)
        split = {PREFERRED: slice(at, at + one.comparison.is_preferred)}
        split[OTHER] = slice(split[PREFERRED].stop, at + count)
        for name, chosen in split.items():
            told.setdefault(f"{name}_{NLL}", []).append(-float(logprobs[chosen].sum()))
            told.setdefault(f"{name}_{RATIO}", []).append(float(ratios[chosen].sum()))
            told.setdefault(f"{name}_{TOKENS}", []).append(float(compared.lengths[chosen].sum()))
        at += count
    return told


def _in_order(batch: Sequence[Referred], parts: Sequence[list[int]], told: Sequence[Told]) -> Told:
    """Return what was told of each example, in the batch's order."""
    found: Told = {name: [0.0] * len(batch) for name in told[0]}
    for chosen, of_part in zip(parts, told, strict=True):
        for name, values in of_part.items():
            for index, value in zip(chosen, values, strict=True):
                found[name][index] = value
    return found


def _whole(
    batch: Sequence[Referred], parts: Sequence[list[int]], told: Sequence[Told], loss: Bound, divergence: float
) -> ComparedBatch:
    each = _in_order(batch, parts, told)
    config = _config(loss)
    weights = _weights(batch)
    means = {name: _mean(each[name], weights) for name in (ACCURACY, MARGIN)}
    nll = {name: _mean(each[f"{name}_{NLL}"], weights, each[f"{name}_{TOKENS}"]) for name in (PREFERRED, OTHER)}
    more = {f"{name}_{NLL}": value for name, value in nll.items() if value is not None}
    if config.reference:
        counts = {PREFERRED: [float(one.comparison.is_preferred) for one in batch]}
        counts[OTHER] = [len(one.comparison.responses) - k for one, k in zip(batch, counts[PREFERRED], strict=True)]
        ratios = {name: _mean(each[f"{name}_{RATIO}"], weights, count) for name, count in counts.items()}
        more |= {f"{name}_{RATIO}": value for name, value in ratios.items() if value is not None}
    if config.divergence:
        more["divergence"] = divergence
    return ComparedBatch(
        loss=_loss_of(range(len(batch)), weights, each, config.sft),
        num_targets=sum(one.comparison.num_targets for one in batch),
        parts={**{name: value for name, value in means.items() if value is not None}, **more},
        by_domain=_by_domain(batch, each, config.sft),
    )


def _mean(values: Sequence[float], weights: Sequence[float], counts: Sequence[float] | None = None) -> float | None:
    """Return the weighted mean of values, or of what they are sums of, by counts; None of nothing."""
    counts = [1.0] * len(values) if counts is None else counts
    whole = sum(weight * count for weight, count in zip(weights, counts, strict=True))
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / whole if whole else None


def _by_domain(batch: Sequence[Referred], each: Told, sft: float) -> dict[str, float]:
    groups: dict[str, list[int]] = {}
    for at, one in enumerate(batch):
        groups.setdefault(one.comparison.domain, []).append(at)
    weights = _weights(batch)
    return {name: _loss_of(chosen, weights, each, sft) for name, chosen in sorted(groups.items())}


def _weights(batch: Sequence[Referred]) -> list[float]:
    return [one.comparison.weight for one in batch]


def _loss_of(chosen: Sequence[int], weights: Sequence[float], each: Told, sft: float) -> float:
    """Return the loss of some examples of a batch: their mean, and `sft` times that over preferred tokens."""
    own = [weights[at] for at in chosen]
    names = LOSS, f"{PREFERRED}_{NLL}", f"{PREFERRED}_{TOKENS}"
    losses, nll, tokens = ([each[name][at] for at in chosen] for name in names)
    return (_mean(losses, own) or 0.0) + sft * (_mean(nll, own, tokens) or 0.0)
