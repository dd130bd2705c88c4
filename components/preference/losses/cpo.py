"""CPO: DPO with a uniform reference, which cancels, and the likelihood of the chosen response."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class CpoConfig(PairLossConfig):
    """The scale of log-probabilities, and the weight of the likelihood."""

    reference: ClassVar[bool] = False
    sft: float = Field(default=1.0, ge=0)
    """Weight of the negative log-likelihood of the chosen responses, mean per token of the batch."""


def cpo(compared: Compared, *, config: CpoConfig) -> Loss:
    """Return [E]: -log sigmoid(beta (log pi(chosen) - log pi(rejected))); `sft` adds the likelihood.

    Source: Xu et al. 2024, CPO (arXiv:2401.08417), eqs. 3 to 5.
    """
    from components.modeling.supervised.pair_losses import logistic_loss

    margin = config.beta * gap(compared.logprobs)
    return Loss(loss=logistic_loss(margin, config.label_smoothing), margin=margin)
