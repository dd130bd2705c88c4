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

    reads: ClassVar[frozenset[str]] = frozenset({"proxy_logprob_n", "current_logprob_n"})
    rho: float = Field(default=0.01, gt=0, le=1)
    """Share of the tokens with a negative advantage that count as rare: the ones least likely before the update."""
    limit: float = Field(default=10.0, gt=0)
    """Largest value of the divergence at a token; beyond it the token is left alone."""


def lp_reg(scores: TokenScores, batch: Batch, context: SlotContext, *, config: LpRegConfig) -> TokenLoss:
    """Return coefficient * min(exp(d) - d - 1, limit), d = proxy logp - logp, on protected tokens and 0 elsewhere.

    Protected: negative advantage, among the rarest `rho` of such tokens in the minibatch (two or more, else none), kept
    by the proxy, and less likely than by it. The term is k3, whose gradient is in expectation that of
    KL(proxy || policy).
    `proxy_logprob_n` comes from annotate min_p_proxy. Metric `lp_reg_share`: protected tokens.
    Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration (arXiv:2510.03222), and its released code.
    """
    import torch

    proxy_n = batch.extras["proxy_logprob_n"]
    gap_n = proxy_n - scores.logprobs
    whole = batch if context.minibatch is None else context.minibatch
    protected_n = (
        (batch.advantages < 0)
        & (batch.extras["current_logprob_n"] <= rare_below(whole, config.rho))
        & (gap_n.detach() > 0)  # False for NaN: dropped by the proxy
    )
    # masked before the exponential: the other tokens may be NaN, and so would be their gradient
    gap_n = torch.where(protected_n, gap_n, torch.zeros_like(gap_n))
    penalty_n = config.coefficient * (gap_n.expm1() - gap_n).clamp(max=config.limit)
    return TokenLoss(penalty_n, {"lp_reg_share": protected_n.float()})


def rare_below(batch: Batch, rho: float) -> Tensor:
    """Return [], the largest log-probability among the rarest `rho` of the tokens with a negative advantage.

    It is that before the update, and minus infinity if fewer than two tokens are as rare.
    """
    import torch

    candidates = batch.extras["current_logprob_n"][batch.advantages < 0]
    count = int(len(candidates) * rho)
    if count < 2:
        return torch.tensor(-torch.inf)
    return candidates.cpu().kthvalue(count).values  # on a GPU it has no deterministic kernel
