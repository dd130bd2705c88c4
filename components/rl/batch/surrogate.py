"""The clipped surrogate loss and its importance ratios.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch


def token_ratio(scores: TokenScores, batch: Batch) -> Tensor:
    """Return [N]: r_t = pi(o_t) / pi_old(o_t), differentiable."""
    return torch.exp(scores.logprobs - batch.old_logprobs)


def sequence_ratio(scores: TokenScores, batch: Batch) -> Tensor:
    """Return [S]: s = exp(mean over the response's tokens of log r_t), the geometric mean of its ratios."""
    return torch.exp(batch.response_mean(scores.logprobs - batch.old_logprobs))


def sequence_ratio_of_tokens(scores: TokenScores, batch: Batch) -> Tensor:
    """Return [N]: the value of s of the response, with the gradient s * d log pi(o_t) of the token alone.

    Source: Zheng et al. 2025, GSPO (arXiv:2507.18071), GSPO-token: sg[s] * pi(o_t) / sg[pi(o_t)].
    """
    own = torch.exp(scores.logprobs - scores.logprobs.detach())
    return batch.to_tokens(sequence_ratio(scores, batch).detach()) * own


def truncated_weights(batch: Batch, cap: float) -> Tensor:
    """Return [N]: min(pi_old / pi_behaviour, cap), the truncated importance weight of each token."""
    # bounded before exp, which would overflow at tokens that are nearly impossible under the behaviour policy
    return (batch.old_logprobs - batch.behaviour_logprobs).clamp(max=math.log(cap)).exp()


def clipped_loss(ratio: Tensor, advantages: Tensor, low: float | Tensor, high: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return -min(r A, clip(r, low, high) A), and 1 where the clip removes the gradient, else 0; all of one shape.

    Source: Schulman et al. 2017, PPO (arXiv:1707.06347), eq. 7. Pessimistic: a ratio that has moved against its
    advantage keeps its gradient, however far it moved.
    """
    bounds = (bound if isinstance(bound, Tensor) else ratio.new_tensor(bound) for bound in (low, high))
    clipped = torch.clamp(ratio, *bounds)
    free_gain, clipped_gain = ratio * advantages, clipped * advantages
    return -torch.minimum(free_gain, clipped_gain), (clipped_gain < free_gain).detach().float()
