"""Generalised advantage estimation: PPO's advantage, from a critic's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class GAEConfig(AdvantageConfig):
    """Discount, lambda and whitening."""

    reads: ClassVar[frozenset[str]] = frozenset({"values"})
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per token."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """lambda. 1: the return minus the value, unbiased. 0: the one-step TD error."""
    whiten: bool = True
    """Whether advantages get mean 0 and standard deviation 1 over the tokens of the batch."""


def gae(batch: Batch, context: SlotContext, *, config: GAEConfig) -> Tensor:
    """Return [N]: A_t = sum_k (gamma lambda)^k d_(t+k) with d_t = r_t + gamma V(s_(t+1)) - V(s_t).

    Token rewards are r at their token, the rest of a response's reward at its last one; the value after it is 0, also
    for truncated responses.
    Source: Schulman et al. 2016 (arXiv:1506.02438), eq. 16; whitening as in Huang et al. 2024 (arXiv:2403.17031).
    """
    advantage_n = unwhitened(batch, gamma=config.gamma, lam=config.lam)
    if not config.whiten or len(advantage_n) < 2:
        return advantage_n
    spread = advantage_n.double().std()
    return ((advantage_n.double() - advantage_n.double().mean()) / (spread + 1e-8)).to(advantage_n.dtype)


def unwhitened(batch: Batch, *, gamma: float, lam: float) -> Tensor:
    """Return [N]: the advantages without whitening; plus the values they are the critic's targets."""
    from components.rl.batch.returns import next_in_response, received, suffix_sum

    delta_n = received(batch) + gamma * next_in_response(batch, batch.values) - batch.values
    return suffix_sum(batch, delta_n, gamma * lam)
