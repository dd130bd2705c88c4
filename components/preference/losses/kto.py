"""KTO: single responses, desirable or not, against what the policy has drifted from the reference on average."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss
from components.preference.loss_config import Compares, PreferenceLossConfig


class KtoConfig(PreferenceLossConfig):
    """The value function."""

    compares: ClassVar[Compares] = "labels"
    divergence: ClassVar[bool] = True
    beta: float = Field(default=0.1, gt=0)
    """Scale of log-ratios: the smaller, the further the policy may move."""
    desirable_weight: float = Field(default=1.0, ge=0)
    """Weight of desirable responses; the paper keeps weight times count of both kinds within 1 : 1 and 4 : 3."""
    undesirable_weight: float = Field(default=1.0, ge=0)
    """Weight of undesirable responses."""


def kto(compared: Compared, *, config: KtoConfig) -> Loss:
    """Return [E]: w (1 - sigmoid(beta (h - z))) of a desirable response, w (1 - sigmoid(beta (z - h))) of another.

    h = log pi - log pi_ref; z, without gradient, is the mean of h over the batch's prompts with responses of other
    rows, at least 0. Source: Ethayarajh et al. 2024, KTO (arXiv:2402.01306), eqs. 6 and 7.
    """
    import torch

    from components.modeling.supervised.pair_losses import value_loss

    desirable = compared.scores > 0
    margin = config.beta * (compared.log_ratios() - compared.divergence)
    weight = torch.where(desirable, config.desirable_weight, config.undesirable_weight).to(margin.dtype)
    return Loss(loss=weight * value_loss(margin, desirable), margin=torch.where(desirable, margin, -margin))
