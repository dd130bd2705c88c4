"""A bonus for the entropy of the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class EntropyConfig(RegularizerConfig):
    """The coefficient, and the denominator if it is not the objective's."""

    needs_entropy: ClassVar[bool] = True


def entropy(scores: TokenScores, batch: Batch, context: SlotContext, *, config: EntropyConfig) -> TokenLoss:
    """Return per token -coefficient * H, H the entropy in nats of the current policy at that position.

    Source: Williams and Peng 1991; Mnih et al. 2016, A3C (arXiv:1602.01783), section 4.
    """
    assert scores.entropies is not None
    return TokenLoss(-config.coefficient * scores.entropies)
