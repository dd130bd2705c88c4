"""ORPO: SFT on the chosen response with a penalty on the odds of the rejected one; no reference."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PreferenceLossConfig


class OrpoConfig(PreferenceLossConfig):
    """The weight of the penalty."""

    reference: ClassVar[bool] = False
    beta: float = Field(default=0.1, ge=0)
    """The paper's lambda: weight of the odds ratio beside the likelihood of the chosen response."""
    sft: float = Field(default=1.0, ge=0)
    """Weight of the negative log-likelihood of the chosen responses, mean per token of the batch."""


def orpo(compared: Compared, *, config: OrpoConfig) -> Loss:
    """Return [E]: -beta log sigmoid(log odds of chosen - log odds of rejected), of mean log-probabilities a token.

    Source: Hong et al. 2024, ORPO (arXiv:2403.07691), eqs. 4 to 7. The likelihood covers responses; TRL's covers the
    prompt, too.
    """
    from components.modeling.supervised.pair_losses import log_odds_gap, logistic_loss

    means = compared.mean_logprobs()
    odds = log_odds_gap(means[0::2], means[1::2])
    return Loss(loss=config.beta * logistic_loss(odds), margin=gap(means))
