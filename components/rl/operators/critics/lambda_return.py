"""PPO's value targets: the lambda-return."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import CriticConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class LambdaReturnConfig(CriticConfig):
    """As in advantage gae; PPO uses the same values in both."""

    reads: ClassVar[frozenset[str]] = frozenset({"values"})
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per token."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """lambda. 1: the reward of the response at each of its tokens. 0: the one-step TD target."""


def lambda_return(batch: Batch, context: SlotContext, *, config: LambdaReturnConfig) -> Tensor:
    """Return [N]: V(s_t) + A_t, with V before the update and A of advantage gae, not whitened.

    Source: Schulman et al. 2017, PPO (arXiv:1707.06347), eq. 9 and 11.
    """
    from components.rl.operators.advantages.gae import unwhitened

    return batch.values + unwhitened(batch, gamma=config.gamma, lam=config.lam)
