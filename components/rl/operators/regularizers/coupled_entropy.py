"""DSDR's local term: entropy at the tokens of right responses, more of it where they are distinct."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class CoupledEntropyConfig(RegularizerConfig):
    """The coefficient, lambda_l."""

    reads: ClassVar[frozenset[str]] = frozenset({"coupling_s"})
    needs_entropy: ClassVar[bool] = True
    coefficient: float = Field(default=0.001, ge=0)
    """Weight of the term in the loss."""
    denominator: Literal["responses"] = "responses"
    """The mean over each response's tokens first, so that long ones count no more."""


def coupled_entropy(
    scores: TokenScores, batch: Batch, context: SlotContext, *, config: CoupledEntropyConfig
) -> TokenLoss:
    """Return per token -coefficient * coupling * H, H the entropy in nats of the current policy at that position.

    Summed with its denominator: minus the mean over groups of sum_i w_i (1 / |o_i|) sum_t H, w the softmax over the
    right responses, which annotate diversity_coupling marks. Wrong responses get nothing.
    Source: Wan et al. 2026, DSDR (arXiv:2602.19895): length-invariant entropy of right responses, coupled by softmax.
    """
    assert scores.entropies is not None
    coupling_n = batch.to_tokens(batch.extras["coupling_s"])
    return TokenLoss(-config.coefficient * coupling_n * scores.entropies, {"coupling": coupling_n})
