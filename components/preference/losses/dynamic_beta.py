"""MM-DPO: DPO whose beta grows with how clear a pair is, so that near ties and flipped labels count less."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class DynamicBetaConfig(PairLossConfig):
    """How beta grows."""

    margins: ClassVar[bool] = True
    growth: float = Field(default=0.5, ge=0)
    """The paper's w: a clear pair has beta (1 + growth); 0 is DPO."""
    rate: float = Field(default=0.5, gt=0)
    """The paper's k: how fast beta grows with a row's `margin`."""


def dynamic_beta(compared: Compared, *, config: DynamicBetaConfig) -> Loss:
    """Return [E]: -log sigmoid(beta(d) (h_chosen - h_rejected)), beta(d) = beta (1 + w (1 - exp(-k d))), d >= 0.

    d is the row's margin; where scores contradict a pair it counts as 0. h = log pi - log pi_ref. Source: Zhang et al.
    2025, MM-RLHF (arXiv:2502.10391), section 4; its small SFT term is `sft`, whose weight the paper does not name.
    """
    import torch

    from components.modeling.supervised.pair_losses import logistic_loss

    clear = 1 - torch.exp(-config.rate * compared.margins.clamp(min=0))
    margin = config.beta * (1 + config.growth * clear) * gap(compared.log_ratios())
    return Loss(loss=logistic_loss(margin, config.label_smoothing), margin=margin)
