"""Diagnostics of a step: of its samples, of its update, and of the divergence from the start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.modeling.packing.logprobs import TokenScores
from components.modeling.text.tokenizer import THINK
from components.modeling.training.optimizer import Update
from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch
from components.rl.batch.token_loss import TokenLoss
from components.rl.step.kl_estimates import kl_estimates
from components.rl.step.sampler_gap import GapSums, gap_of_update
from components.tasks.answers import extract_answer

SKIPPED = "skipped_updates"


def sample_metrics(batch: Batch) -> dict[str, float]:
    """Describe all samples of a step, before any filter, by their learned tokens. Means over nothing are left out.

    Responses to unlabelled items have rewards and no outcome.
    signal_share: groups with both outcomes. length_*: tokens, end token included. trace_share: responses with a
    thinking mark. truncated_share: responses cut at the token limit. entropy: mean over tokens, in nats.
    answer_entropy: of the final answers of a group, in nats, mean over groups; at most log of the group size.
    """
    batch = batch.of_learned()
    outcomes = batch.of_traces(batch.outcomes)
    right, wrong, failed = (outcomes == code for code in (RIGHT, WRONG, FAILED))
    verified, unscored = batch.select(batch.outcomes != FAILED), outcomes == UNSCORED
    judged = verified.select(verified.outcomes != UNSCORED) if bool(unscored.any()) else verified
    rewards, lengths = verified.of_traces(verified.rewards), batch.of_traces(batch.response_lengths).double()
    thinking = torch.tensor([THINK in text for text in _written(batch)], dtype=torch.bool)
    metrics = {
        "num_samples": float(batch.num_traces),
        "num_failed": float(failed.sum()),
        "reward_mean": _mean(rewards),
        "reward_std": float(rewards.double().std(correction=0)) if len(rewards) else math.nan,
        "pass_rate": _mean(right[~failed & ~unscored]),
        "signal_share": signal_share(judged),
        "entropy": _mean(batch.entropies),
        "answer_entropy": answer_entropy(batch),
        "length_mean": _mean(lengths),
        "length_max": float(lengths.max()) if len(lengths) else math.nan,
        "length_right": _mean(lengths[right]),
        "length_wrong": _mean(lengths[wrong]),
        "trace_share": _mean(batch.any_of_traces(thinking)),
        "truncated_share": _mean(batch.any_of_traces(~batch.finished)),
    }
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def signal_share(batch: Batch) -> float:
    """Return the share of groups that hold both right and wrong responses."""
    first_of_group = torch.ones(batch.num_responses, dtype=torch.bool)
    first_of_group[1:] = batch.group[1:] != batch.group[:-1]
    return _mean(~batch.group_is_equal(batch.outcomes)[first_of_group])


def answer_entropy(batch: Batch) -> float:
    """Return the mean over groups of the entropy in nats of the distinct final answers; NaN for an empty batch."""
    answers: list[Counter[str]] = [Counter() for _ in batch.prompts]
    answer_of = {text: extract_answer(text) for text in set(batch.texts)}
    groups = batch.group.tolist()
    for row in batch.last_rows.tolist():
        answers[groups[row]][answer_of[batch.texts[row]]] += 1
    entropies = []
    for counts in answers:
        total = counts.total()
        entropies.append(math.fsum(-n / total * math.log(n / total) for n in counts.values()))
    return math.fsum(entropies) / len(entropies) if entropies else math.nan


def _written(batch: Batch) -> Sequence[str]:
    """Return the policy's text of each row, over all turns."""
    if batch.earlier_turns is None:
        return batch.texts
    return ["\n".join((*earlier, text)) for earlier, text in zip(batch.earlier_turns, batch.texts, strict=True)]


def divergence(logprobs: Tensor, other: Tensor) -> dict[str, float]:
    """Estimate KL(policy || other) per token from the policy's samples.

    Shapes: both [N], log-probabilities of the sampled tokens.
    """
    return {f"start_kl_{name}": _mean(value_n) for name, value_n in kl_estimates(logprobs, other).items()}


@dataclass(frozen=True)
class PartTally:
    """The sums of one forward pass."""

    num_tokens: int
    loss: float
    sums: tuple[tuple[str, float], ...]
    """Name and sum over the pass's tokens, in the order of summation."""
    ratio_sum: float
    ratio_squares: float
    ratio_min: float
    ratio_max: float
    gap: GapSums | None = None
    """Of the sampler, where it was asked for."""


def tally_part(
    part: Batch, scores: TokenScores, losses: Sequence[TokenLoss], loss: Tensor, *, with_gap: bool = False
) -> PartTally:
    """Return the sums of one forward pass; the sampler's gap too, if asked for."""
    sums: list[tuple[str, float]] = []

    def add(name: str, value_n: Tensor) -> None:
        sums.append((name, float(value_n.sum())))

    for token_loss in losses:
        for name, value_n in token_loss.metrics.items():
            add(name, value_n.double())
            if name == "clip_fraction":  # a rising ratio is stopped at the upper bound, a falling one at the lower
                add("clip_fraction_high", value_n.double() * (part.advantages > 0))
                add("clip_fraction_low", value_n.double() * (part.advantages < 0))
    logprobs_n = scores.logprobs.detach()
    for name, value_n in kl_estimates(part.old_logprobs, logprobs_n).items():
        add(f"update_kl_{name}", value_n)
    if bool(part.reference_logprobs.isfinite().all()):
        for name, value_n in kl_estimates(logprobs_n, part.reference_logprobs).items():
            add(f"reference_kl_{name}", value_n)
    ratio_n = torch.exp(logprobs_n.double() - part.old_logprobs.double())
    return PartTally(
        num_tokens=part.num_tokens,
        loss=float(loss.detach()),
        sums=tuple(sums),
        ratio_sum=float(ratio_n.sum()),
        ratio_squares=float(ratio_n.square().sum()),
        ratio_min=float(ratio_n.min()),
        ratio_max=float(ratio_n.max()),
        gap=gap_of_update(part, logprobs_n) if with_gap else None,
    )


class UpdateTally:
    """Running sums over the forward passes and updates of one step."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._num_tokens = 0
        self._updates: list[Update] = []
        self._num_skipped = 0
        self._loss = 0.0
        self._ratio_sum = self._ratio_squares = 0.0
        self._ratio_min, self._ratio_max = math.inf, -math.inf

    def add_part(self, part: PartTally) -> None:
        """Add one forward pass."""
        self._num_tokens += part.num_tokens
        self._loss += part.loss
        for name, value in part.sums:
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._ratio_sum += part.ratio_sum
        self._ratio_squares += part.ratio_squares
        self._ratio_min = min(self._ratio_min, part.ratio_min)
        self._ratio_max = max(self._ratio_max, part.ratio_max)

    @property
    def is_untouched(self) -> bool:
        """Whether the step has not updated the policy yet."""
        return not self._updates

    def add_update(self, update: Update) -> None:
        """Add one optimiser update."""
        self._updates.append(update)

    def skip_update(self) -> None:
        """Count a minibatch that had no gradient, or no response."""
        self._num_skipped += 1

    def metrics(self) -> dict[str, float]:
        """Return means over tokens and updates; only the counts if there was no update.

        ess: effective sample size of the importance ratios over the number of tokens, (sum r)^2 / (n sum r^2).
        update_kl_*: KL(policy before the step || policy), and reference_kl_*: KL(policy || reference), estimated on
        the step's tokens.
        """
        metrics = {"num_updates": float(len(self._updates)), SKIPPED: float(self._num_skipped)}
        if not self._updates:
            return metrics
        metrics |= {name: value / self._num_tokens for name, value in self._sums.items()}
        return metrics | {
            "loss": self._loss / len(self._updates),
            "grad_norm": math.fsum(update.grad_norm for update in self._updates) / len(self._updates),
            "learning_rate": self._updates[-1].learning_rate,
            "num_trained_tokens": float(self._num_tokens),
            "ratio_min": self._ratio_min,
            "ratio_max": self._ratio_max,
            "ess": self._ratio_sum**2 / (self._num_tokens * self._ratio_squares),
        }


def _mean(values: Tensor) -> float:
    return float(values.double().mean()) if values.numel() else math.nan
