"""ROVER: the policy as a Q function of the uniform random policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch

CHUNK_ROWS = 4096


class RoverConfig(ObjectiveConfig):
    """How Q is derived from the policy."""

    reads: ClassVar[frozenset[str]] = frozenset({"mean_logprob_n"})
    silent_at_zero: ClassVar[bool] = (
        False  # a response without reward signal still has the bootstrapped part of its target
    )
    rho: float = Field(default=1.0, gt=0)
    """Temperature of the policy as a softmax of Q."""
    beta: float = Field(default=1.0, ge=0)
    """Weight of the next state's value in the target; 0 leaves the centred reward."""


def rover(scores: TokenScores, batch: Batch, context: SlotContext, *, config: RoverConfig) -> TokenLoss:
    """Return per token (q_t - y_t)^2 with q_t = rho (logp - old logp) and a target y_t without gradient.

    y_t = A + beta rho (1/|V|) sum_v (log pi(v | s_(t+1)) - log pi_old(v | s_(t+1))), without the sum at the last token;
    A is the centred reward (advantage group_mean). `mean_logprob_n` comes from annotate vocabulary_means.
    Source: He et al. 2025, ROVER (arXiv:2509.24981), and the released actor. At the first update after a rollout the
    gradient is twice that of -A logp, so ROVER differs only with several updates per batch.
    """
    from components.rl.batch.returns import next_in_response

    q_n = config.rho * (scores.logprobs - batch.old_logprobs)
    moved_n = _mean_logprobs(scores) - batch.extras["mean_logprob_n"]
    next_n = config.beta * config.rho * next_in_response(batch, moved_n)
    target_n = batch.advantages + next_n
    return TokenLoss((q_n - target_n).square(), {"rover_next_value": next_n, "rover_q": q_n.detach()})


def _mean_logprobs(scores: TokenScores) -> Tensor:
    """Return [N] without gradient: the mean of log pi over the vocabulary, at most CHUNK_ROWS rows of logits a time."""
    import torch

    from components.modeling.packing.logprobs import mean_logprobs

    with torch.no_grad():
        rows = torch.arange(len(scores.logprobs), device=scores.logprobs.device)
        return torch.cat([mean_logprobs(scores.logits_at(part)) for part in rows.split(CHUNK_ROWS)])
