"""RAPO's forward KL to the reference: it keeps the reference's modes, with more weight on rewarded responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class ForwardKLConfig(RegularizerConfig):
    """How outcomes reweight the reference."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    right: float = Field(default=1.0, ge=0)
    """Weight g of the term at right responses."""
    wrong: float = Field(default=0.1, ge=0)
    """Weight g at wrong responses; a small one lets the policy leave the reference where the reference fails."""
    max_ratio: float = Field(default=10.0, gt=0)
    """Bound of the importance ratio reference / policy."""


def forward_kl(scores: TokenScores, batch: Batch, context: SlotContext, *, config: ForwardKLConfig) -> TokenLoss:
    """Return per token coefficient * g * (u log u - u + 1), u = min(reference / policy, max_ratio), g by the outcome.

    The value estimates g KL(reference || policy) from the policy's tokens and is never negative. Its own gradient
    would ignore the sampling distribution; the gradient used is -g u d log pi, in expectation that of the divergence.
    Source: Deng et al. 2025, Unlocking Reasoning Capabilities (arXiv:2510.03865): forward KL to a reward-reweighted
    reference. RECONSTRUCTED: this estimator, g and its values.
    """
    import torch

    from components.rl.batch.batch import RIGHT

    log_ratio_n = batch.reference_logprobs - scores.logprobs.detach()
    ratio_n = log_ratio_n.exp().clamp(max=config.max_ratio)
    estimate_n = ratio_n * ratio_n.log().clamp(min=-100.0) - ratio_n + 1  # 0 log 0 is 0
    right_n = batch.to_tokens(batch.outcomes == RIGHT)
    weight_n = torch.where(right_n, config.right, config.wrong) * config.coefficient
    pull_n = -ratio_n * scores.logprobs
    return TokenLoss(weight_n * (estimate_n + pull_n - pull_n.detach()), {"forward_kl": estimate_n})
