"""OREO's value targets: the reward minus the remaining divergence cost of the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import CriticConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class PathConsistencyConfig(CriticConfig):
    """As in objective oreo."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    beta: float = Field(default=0.03, gt=0)
    """Weight of the divergence from the reference in the return."""


def path_consistency(batch: Batch, context: SlotContext, *, config: PathConsistencyConfig) -> Tensor:
    """Return [N]: R - beta sum_(i >= t) c_i with c = old logp - reference logp.

    Source: Wang et al. 2024, OREO (arXiv:2412.16145), the value loss.
    """
    from components.rl.batch.returns import suffix_sum

    cost_n = suffix_sum(batch, batch.old_logprobs - batch.reference_logprobs)
    return batch.to_tokens(batch.rewards) - config.beta * cost_n
