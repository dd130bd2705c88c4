"""Divergence from the reference policy, estimated on the sampled tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class KLConfig(RegularizerConfig):
    """Which estimator of KL(policy || reference)."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """With d = logp - reference logp, k1: d. k2: d^2 / 2. k3: exp(-d) - 1 + d, GRPO's choice.

    As a loss on on-policy tokens, in expectation, k2 has the gradient of KL(policy || reference), k3 that of
    KL(reference || policy), and k1 has none.
    """


def kl(scores: TokenScores, batch: Batch, context: SlotContext, *, config: KLConfig) -> TokenLoss:
    """Return per token coefficient * estimate, differentiable through the current policy's log-probability.

    Source: Schulman 2020, Approximating KL Divergence; k3 as in Shao et al. 2024 (arXiv:2402.03300), eq. 4.
    """
    difference_n = scores.logprobs - batch.reference_logprobs
    if config.estimator == "k1":
        estimate_n = difference_n
    elif config.estimator == "k2":
        estimate_n = difference_n.square() / 2
    else:
        estimate_n = (-difference_n).expm1() + difference_n
    return TokenLoss(config.coefficient * estimate_n)
