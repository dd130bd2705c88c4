"""DHPO: a mix of token and sequence ratios, each inside its own trust region."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class HybridClipConfig(ObjectiveConfig):
    """Both trust regions, and the share of each branch."""

    step_entropies: ClassVar[bool] = True
    token_clip_low: float = Field(default=0.2, ge=0, le=1)
    """Token ratios are clipped below at 1 - token_clip_low."""
    token_clip_high: float = Field(default=0.28, ge=0)
    """Token ratios are clipped above at 1 + token_clip_high."""
    sequence_clip_low: float = Field(default=3e-4, ge=0, le=1)
    """Sequence ratios are clipped below at 1 - sequence_clip_low."""
    sequence_clip_high: float = Field(default=4e-4, ge=0)
    """Sequence ratios are clipped above at 1 + sequence_clip_high."""
    weight: Literal["entropy", "constant"] = "entropy"
    """Share of the token branch. entropy: the token's entropy / the highest one. constant: `token_share`."""
    token_share: float = Field(default=0.5, ge=0, le=1)
    """Share of the token branch for weight constant: 0.5 is the averaged mixing, 1 is GRPO, 0 is GSPO."""
    highest_of: Literal["response", "minibatch"] = "minibatch"
    """The tokens over which the highest entropy is taken."""
    mix: Literal["arithmetic", "geometric"] = "arithmetic"
    """w r + (1 - w) s, or r^w s^(1 - w)."""


def hybrid_clip(scores: TokenScores, batch: Batch, context: SlotContext, *, config: HybridClipConfig) -> TokenLoss:
    """Return per token -m A, m the mix of the bounded token ratio r and the bounded sequence ratio s.

    Each branch is bounded on the side its advantage pushes to; a clipped branch has no gradient, and the other branch
    keeps its own. s has GSPO-token's form: its gradient is that of the token alone.
    Entropies are those of the policy before the update, at the step's temperature. Metrics: `clip_fraction` (both
    branches clipped), `token_clip_fraction`, `sequence_clip_fraction`, `token_branch_share`.
    Source: Min et al. 2026, DHPO (arXiv:2601.05607). Reconstructed: the normalisation of the entropy, the use of the
    token ratio for uncertain tokens, and all four bounds.
    """
    from components.rl.batch.surrogate import sequence_ratio_of_tokens, token_ratio

    bounds = (config.token_clip_low, config.token_clip_high)
    token_n, token_cut_n = _bounded(token_ratio(scores, batch), batch.advantages, *bounds)
    bounds = (config.sequence_clip_low, config.sequence_clip_high)
    sequence_n, sequence_cut_n = _bounded(sequence_ratio_of_tokens(scores, batch), batch.advantages, *bounds)
    share_n = _token_shares(batch, context, config)
    if config.mix == "arithmetic":
        mixed_n = share_n * token_n + (1 - share_n) * sequence_n
    else:
        mixed_n = (share_n * token_n.log() + (1 - share_n) * sequence_n.log()).exp()
    metrics = {
        "clip_fraction": token_cut_n * sequence_cut_n,
        "token_clip_fraction": token_cut_n,
        "sequence_clip_fraction": sequence_cut_n,
        "token_branch_share": share_n,
    }
    return TokenLoss(-mixed_n * batch.advantages, metrics)


def _bounded(ratio_n: Tensor, advantage_n: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return min(r, 1 + high) where the advantage is positive, else max(r, 1 - low), and 1 where the bound applies."""
    import torch

    bounded_n = torch.where(advantage_n > 0, ratio_n.clamp(max=1 + high), ratio_n.clamp(min=1 - low))
    return bounded_n, (bounded_n.detach() != ratio_n.detach()).float()


def _token_shares(batch: Batch, context: SlotContext, config: HybridClipConfig) -> Tensor:
    """Return [N]: w, the share of the token branch, in [0, 1]."""
    import torch

    if config.weight == "constant":
        return torch.full_like(batch.advantages, config.token_share)
    if config.highest_of == "response":
        highest_n = batch.to_tokens(batch.response_max(batch.entropies))
    else:
        whole = context.minibatch or batch
        highest_n = whole.entropies.max().to(batch.entropies.device)
    return (batch.entropies / highest_n.clamp(min=1e-12)).clamp(0, 1)
