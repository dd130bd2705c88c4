"""Divergence from the reference policy, estimated on tokens that the reference drew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class OfflineKLConfig(RegularizerConfig):
    """Only the coefficient."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})


def offline_kl(scores: TokenScores, batch: Batch, context: SlotContext, *, config: OfflineKLConfig) -> TokenLoss:
    """Return per token coefficient * (r log r - r + 1) with r = policy / reference, differentiable.

    On tokens of the reference, value and gradient are in expectation those of KL(policy || reference), which
    regularizer kl estimates on the policy's own tokens.
    """
    log_ratio_n = scores.logprobs - batch.reference_logprobs
    estimate_n = log_ratio_n.exp() * log_ratio_n - log_ratio_n.expm1()
    return TokenLoss(config.coefficient * estimate_n, {"offline_kl": estimate_n.detach()})
