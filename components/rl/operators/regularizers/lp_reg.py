"""Lp-Reg: rare tokens with negative advantage are pulled up to their probability under the policy without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class LpRegConfig(RegularizerConfig):
    """Which tokens are protected."""

    reads: ClassVar[frozenset[str]] = frozenset({"proxy_logprob_n"})
    rho: float = Field(default=0.01, gt=0, le=1)
    """Share of the tokens with a negative advantage that count as rare: the least likely ones when drawn."""


def lp_reg(scores: TokenScores, batch: Batch, context: SlotContext, *, config: LpRegConfig) -> TokenLoss:
    """Return coefficient * (exp(d) - d - 1), d = proxy logp - logp, on protected tokens and 0 on all others.

    Protected: negative advantage, among the rarest `rho` of such tokens in the minibatch, kept by the proxy, and below
    the proxy's probability. The term is k3, whose gradient is in expectation that of KL(proxy || policy).
    `proxy_logprob_n` comes from annotate min_p_proxy. Metric `lp_reg_share`: protected tokens.
    Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration (arXiv:2510.03222), and its released code.
    """
    import torch

    proxy_n = batch.extras["proxy_logprob_n"]
    gap_n = proxy_n - scores.logprobs
    whole = batch if context.minibatch is None else context.minibatch
    protected_n = (
        (batch.advantages < 0)
        & (batch.old_logprobs <= rare_below(whole, config.rho))
        & (gap_n.detach() > 0)  # False for NaN: dropped by the proxy
    )
    # masked before the exponential: the other tokens may be NaN, and so would be their gradient
    gap_n = torch.where(protected_n, gap_n, torch.zeros_like(gap_n))
    penalty_n = config.coefficient * (gap_n.expm1() - gap_n)
    return TokenLoss(penalty_n, {"lp_reg_share": protected_n.float()})


def rare_below(batch: Batch, rho: float) -> Tensor:
    """Return [], the largest old log-probability among the rarest `rho` of the tokens with a negative advantage."""
    import torch

    candidates = batch.old_logprobs[batch.advantages < 0]
    if not len(candidates):
        return torch.tensor(-torch.inf)
    count = max(1, int(len(candidates) * rho))
    return candidates.cpu().kthvalue(count).values  # on a GPU it has no deterministic kernel
