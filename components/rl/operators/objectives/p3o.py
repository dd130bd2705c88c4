"""P3O: the policy learns from differences of rewards between responses to one prompt, clipped apart or together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import Denominator, ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch

MOST = 20.0
"""Largest log-ratio of a response whose ratio is taken: exp of a larger one overflows."""


class P3OConfig(ObjectiveConfig):
    """What is clipped, and where."""

    silent_at_zero: ClassVar[bool] = False
    whole_groups: ClassVar[bool] = True
    variant: Literal["separate", "joint"] = "joint"
    """separate (V1): the ratio of each response of a pair. joint (V2): the change of the log-odds of the pair."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """epsilon: ratios are clipped to [1 - clip, 1 + clip], changes of log-odds to [-clip, clip]."""
    denominator: Denominator = "responses"
    """responses: the mean over the pairs of a group, and over groups of equal size."""


def p3o(scores: TokenScores, batch: Batch, context: SlotContext, *, config: P3OConfig) -> TokenLoss:
    """Return on every token of response i -(2 / (G - 1)) sum over j of its surrogate against j, d_ij = (R_i - R_j) / 2.

    separate: min(rho_i d, clip(rho_i) d), rho the ratio of a whole response. joint: half of min(u d, clip(u) d), which
    both responses share, u = log rho_i - log rho_j. R is the mean of the response's advantages, so that an advantage
    operator without a baseline stands before it; a constant of the prompt in R leaves every d as it is. At rho = 1 both
    have the gradient of leave-one-out. A group of one response has no pair and no gradient. Metrics: `clip_fraction`,
    pairs whose gradient the clip removes; `p3o_log_odds`, |u|; `p3o_gap`, |d|: means over pairs.

    Source: Wu et al. 2023, Pairwise Proximal Policy Optimization (arXiv:2310.00212), V1 and V2; all pairs of a group,
    and the weights that make both equal to the pairwise gradient, are reconstructed.
    """
    import torch

    from components.rl.batch.surrogate import clipped_loss

    moved_t = batch.of_traces(batch.response_sum(scores.logprobs - batch.old_logprobs))
    reward_t = batch.of_traces(batch.response_mean(batch.advantages.double()))
    group_t = batch.of_traces(batch.group)
    pair_of = group_t.unsqueeze(0) == group_t.unsqueeze(1)
    first, second = (pair_of & ~torch.eye(len(group_t), dtype=torch.bool, device=pair_of.device)).nonzero().unbind(1)
    gap_p = ((reward_t[first] - reward_t[second]) / 2).to(moved_t.dtype)
    odds_p = moved_t[first] - moved_t[second]
    if config.variant == "separate":
        bounded_t = moved_t + (moved_t.clamp(-MOST, MOST) - moved_t).detach()  # what moved furthest keeps its gradient
        loss_p, silenced_p = clipped_loss(bounded_t.exp()[first], gap_p, 1 - config.clip, 1 + config.clip)
    else:
        loss_p, silenced_p = clipped_loss(odds_p, gap_p, -config.clip, config.clip)
        loss_p = loss_p / 2  # the pair is met twice
    others_t = (batch.of_traces(batch.group_sizes) - 1).clamp(min=1)

    def to_tokens(value_p: Tensor) -> Tensor:
        """Return [N]: the mean over the pairs of each response of values [pairs], 0 without any."""
        sum_t = value_p.new_zeros(len(group_t)).index_add(0, first, value_p)
        return batch.to_tokens(batch.to_rows(sum_t / others_t))

    shown = {"clip_fraction": silenced_p, "p3o_log_odds": odds_p.detach().abs(), "p3o_gap": gap_p.abs()}
    return TokenLoss(2 * to_tokens(loss_p), {name: to_tokens(value_p) for name, value_p in shown.items()})
