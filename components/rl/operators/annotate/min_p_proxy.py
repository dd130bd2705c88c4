"""Lp-Reg's proxy: the old policy without noise, meaning tokens far less likely than the likeliest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MinPProxyConfig(SlotConfig):
    """What counts as noise."""

    writes: ClassVar[frozenset[str]] = frozenset({"proxy_logprob_n"})
    kappa: float = Field(default=0.02, gt=0, lt=1)
    """Smallest probability kept."""
    relative: bool = True
    """Whether kappa is a share of the largest probability at that position (min-p); otherwise it is a probability."""


def min_p_proxy(batch: Batch, context: SlotContext, *, config: MinPProxyConfig) -> Batch:
    """Mark `proxy_logprob_n`: the token's log-probability under the proxy, NaN where the proxy drops it.

    The proxy is the old policy with tokens below the threshold dropped and the rest renormalised.
    Source: Huang et al. 2025, Low-probability Tokens Sustain Exploration (arXiv:2510.03222), and its released code.
    """
    from components.rl.step.scoring import frozen_token_map

    marks_n = frozen_token_map(
        context.policies.trained,
        batch,
        lambda hidden, tokens, logits_of: proxy_logprobs(logits_of(hidden), tokens, config.kappa, config.relative),
        context.collector.max_tokens,
        temperature=context.settings.temperature,
    )
    return batch.with_extras(proxy_logprob_n=marks_n)


def proxy_logprobs(logits: Tensor, tokens: Tensor, kappa: float, relative: bool) -> Tensor:
    """Return [M]: log-probabilities of `tokens` [M] under the proxy of `logits` [M, V], NaN where it drops them."""
    import torch

    logprobs = torch.log_softmax(logits, -1)
    threshold = torch.full_like(logprobs[:, :1], kappa).log()
    if relative:
        threshold = threshold + logprobs.amax(-1, keepdim=True)
    kept = logprobs >= threshold
    kept_mass = torch.logsumexp(logprobs.masked_fill(~kept, -torch.inf), -1)
    place = tokens.unsqueeze(-1)
    own = logprobs.gather(-1, place).squeeze(-1) - kept_mass
    return own.masked_fill(~kept.gather(-1, place).squeeze(-1), torch.nan)
