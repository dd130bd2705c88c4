"""VERL: a bonus for responses whose hidden states spread over more directions, or do so faster, than usual."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch

EPSILON = 1e-8
LARGEST_DEVIATION = 5.0
MEASURES = ("rank", "velocity", "acceleration")
START = {"rank": 0.0, "velocity": 0.0, "acceleration": 0.0, "success": 0.5}
"""The moving means before the first step."""


class EffectiveRankConfig(AdvantageConfig):
    """How the measures are taken and how large the bonus may be."""

    writes: ClassVar[frozenset[str]] = frozenset(f"{name}_s" for name in MEASURES)
    stride: int = Field(default=40, ge=1)
    """Tokens between two measurements of the rank within a response."""
    kappa: float = Field(default=2.0, ge=1)
    """The bonus is at most |A| / kappa, so that no advantage changes sign."""
    decay: float = Field(default=0.7, ge=0, lt=1)
    """Share of the old value in the moving means of the measures."""
    gain: float = Field(default=2.0, ge=0)
    """Steepness of the choice between the two channels."""
    scale: float = Field(default=1.0, ge=0)
    """Factor of the bonus."""
    falls_with_success: bool = False
    """Whether the factor is also multiplied by 1 - the moving mean of the pass rate, which starts at 1/2."""


def effective_rank(batch: Batch, context: SlotContext, *, config: EffectiveRankConfig) -> Batch:
    """Add min(relu(bonus), |A| / kappa) to every advantage, and mark `rank_s`, `velocity_s`, `acceleration_s`.

    D(x) = (x - mean) / |mean|, clipped to [-5, 5]. With b = sigmoid(gain D(acceleration)),
    bonus = scale (b tanh D(rank) + (1 - b) tanh D(velocity)). The moving means start at 0 and get the values of a step
    at the end of the next one; the first step has no bonus.
    Source: Huang et al. 2025, Beyond the Exploration-Exploitation Trade-off (arXiv:2509.23808), and its released
    trainer.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.step.scoring import response_hidden

    rows = response_hidden(context.policies.trained, batch, max_tokens=context.collector.max_tokens)
    hidden = rows if batch.one_row_each else batch.by_trace(torch.cat(rows))
    found = batch.to_rows(rank_measures(hidden, config.stride))
    measures = dict(zip(MEASURES, found.unbind(-1), strict=True))
    marked = batch.with_extras(**{f"{name}_s": value.float() for name, value in measures.items()})
    if not batch.num_responses:
        return marked
    means, last = context.memory.setdefault("means", START | {}), context.memory.get("last")
    context.memory["last"] = {name: float(batch.of_traces(value).mean()) for name, value in measures.items()}
    if last is None:
        return marked
    bonus_s = channel_bonus(measures, means, config.gain) * config.scale
    if config.falls_with_success:
        bonus_s = bonus_s * (1 - means["success"])
    success = float(batch.of_traces(batch.outcomes == RIGHT).double().mean())
    for name, value in {**last, "success": success}.items():
        means[name] = config.decay * means[name] + (1 - config.decay) * value
    bonus_n = batch.to_tokens(bonus_s.float()).clamp(min=0)
    return marked.with_advantages(batch.advantages + torch.minimum(bonus_n, batch.advantages.abs() / config.kappa))


def channel_bonus(measures: dict[str, Tensor], means: dict[str, float], gain: float) -> Tensor:
    """Return [S]: the exploring channel (rank) where acceleration is high, the exploiting one (velocity) elsewhere."""
    rank, velocity, acceleration = (
        ((measures[name] - means[name]) / (abs(means[name]) + EPSILON)).clamp(-LARGEST_DEVIATION, LARGEST_DEVIATION)
        for name in MEASURES
    )
    exploring = (gain * acceleration).sigmoid()
    return exploring * rank.tanh() + (1 - exploring) * velocity.tanh()


def rank_measures(hidden: Sequence[Tensor], stride: int) -> Tensor:
    """Return [S, 3] float64: effective rank, its velocity and its acceleration, from hidden states [T, D] of each row.

    With m_j the rank of the first j * stride + 1 states, as far as there are as many: d_j = m_j - mean of the m before
    it, velocity = mean of d_j, acceleration = mean of d_j - d_(j-1); 0 if too short. The rank is that of all states.
    """
    import torch

    lengths = torch.tensor([len(states) for states in hidden], dtype=torch.long)
    whole = _ranks_by_size(hidden, lengths.tolist())
    curves: list[list[float]] = [[] for _ in hidden]
    for size in range(stride + 1, int(lengths.max()) + 1 if len(lengths) else 0, stride):
        rows = (lengths >= size).nonzero().squeeze(1).tolist()
        for row, rank in zip(rows, _ranks([hidden[row][:size] for row in rows]).tolist(), strict=True):
            curves[row].append(rank)
    found = [[rank, *_motion(curve)] for curve, rank in zip(curves, whole, strict=True)]
    return torch.tensor(found, dtype=torch.float64).reshape(-1, 3)


def _motion(curve: Sequence[float]) -> tuple[float, float]:
    changes = [value - sum(curve[:index]) / index for index, value in enumerate(curve) if index]
    turns = [after - before for before, after in pairwise(changes)]
    return (sum(changes) / len(changes) if changes else 0.0, sum(turns) / len(turns) if turns else 0.0)


def _ranks_by_size(hidden: Sequence[Tensor], lengths: Sequence[int]) -> list[float]:
    found = [0.0] * len(lengths)
    for size in set(lengths):
        rows = [row for row, length in enumerate(lengths) if length == size]
        for row, rank in zip(rows, _ranks([hidden[row] for row in rows]).tolist(), strict=True):
            found[row] = rank
    return found


def _ranks(states: Sequence[Tensor]) -> Tensor:
    """Return [R]: exp(entropy of the normalised singular values) of centred states [T, D] of equal T; 0 for T = 1."""
    import torch

    # float64: the singular values are roots of eigenvalues, which keeps only half of the digits
    stacked = torch.stack(list(states)).double()
    centred = stacked - stacked.mean(1, keepdim=True)
    narrow = centred if centred.shape[1] <= centred.shape[2] else centred.transpose(1, 2)
    singular = torch.linalg.eigvalsh(narrow @ narrow.transpose(1, 2)).clamp(min=0).sqrt()
    total = singular.sum(-1)
    share = singular / total.clamp(min=EPSILON).unsqueeze(-1)
    entropy: Tensor = torch.special.entr(share).sum(-1)
    return entropy.exp().masked_fill(total <= EPSILON, 0.0)
