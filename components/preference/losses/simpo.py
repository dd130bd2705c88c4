"""SimPO: the mean log-probability of a token is the reward, with a target margin; no reference."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class SimpoConfig(PairLossConfig):
    """The scale of the reward, and the margin that it should have."""

    reference: ClassVar[bool] = False
    beta: float = Field(default=2.0, gt=0)
    """Scale of mean log-probabilities; the paper takes 2.0 to 2.5 (table 7)."""
    gamma: float = Field(default=1.0, ge=0)
    """The target margin; the paper takes gamma / beta from .1 to .8, and 1.0 of Llama-3-Base (table 7)."""


def simpo(compared: Compared, *, config: SimpoConfig) -> Loss:
    """Return [E]: -log sigmoid(beta (m_chosen - m_rejected) - gamma), m = mean log-probability of a token.

    Source: Meng et al. 2024, SimPO (arXiv:2405.14734), eq. 6.
    """
    from components.modeling.supervised.pair_losses import logistic_loss

    margin = config.beta * gap(compared.mean_logprobs())
    return Loss(loss=logistic_loss(margin - config.gamma, config.label_smoothing), margin=margin)
