"""The 80/20 rule: only the tokens with the highest entropy keep their advantage."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class EntropyShareConfig(AdvantageConfig):
    """Which tokens are learned from."""

    step_entropies: ClassVar[bool] = True
    share: float = Field(default=0.2, gt=0, le=1)
    """rho: share of the step's tokens that keep their advantage; 1 for all."""
    keep: Literal["highest", "lowest", "random"] = "highest"
    """highest: entropy at or above its (1 - share) quantile. lowest and random: the paper's controls."""
    rescale: bool = False
    """Whether kept advantages are divided by the share kept, so that the mean is over kept tokens only."""


def entropy_share(batch: Batch, context: SlotContext, *, config: EntropyShareConfig) -> Tensor:
    """Return [N]: the advantages so far at the chosen tokens, 0 elsewhere, so that the rest has no gradient.

    The entropy is the policy's at the step's temperature; the quantile is over all tokens of the step.
    With denominator tokens, all of them still count, as in the paper.
    Source: Wang et al. 2025, Beyond the 80/20 Rule (arXiv:2506.01939), section 5.1.
    """
    if not batch.num_tokens:
        return batch.advantages
    kept_n = _kept(batch, context, config)
    factor = 1 / kept_n.double().mean().clamp(min=1e-12) if config.rescale else 1.0
    return (batch.advantages * kept_n * factor).to(batch.advantages.dtype)


def _kept(batch: Batch, context: SlotContext, config: EntropyShareConfig) -> Tensor:
    """Return [N] bool."""
    import torch

    if config.keep == "random":
        generator = torch.Generator().manual_seed(context.seed * 1_000_003 + context.step)
        return torch.rand(batch.num_tokens, generator=generator) < config.share
    entropies = batch.entropies.double()
    level = 1 - config.share if config.keep == "highest" else config.share
    threshold = _quantile(entropies, level)
    return entropies >= threshold if config.keep == "highest" else entropies <= threshold


def _quantile(values: Tensor, level: float) -> float:
    """Return the linearly interpolated quantile; torch.quantile refuses more than 2^24 values."""
    import numpy as np

    return float(np.quantile(values.numpy(), level))
