"""RPO: DPO with the likelihood of the chosen response, which keeps it from falling with the rejected one."""

from __future__ import annotations

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class RpoConfig(PairLossConfig):
    """The weight of the likelihood."""

    eta: float = Field(default=0.005, ge=0)
    """Weight of the likelihood, which counts eta * beta times; 0 is DPO."""
    averaged: bool = False
    """Whether the likelihood is a mean over the response's tokens instead of the paper's sum."""


def rpo(compared: Compared, *, config: RpoConfig) -> Loss:
    """Return [E]: -log sigmoid(beta (h_chosen - h_rejected)) - eta beta log pi(chosen).

    Source: Liu et al. 2024, Provably Mitigating Overoptimization in RLHF (arXiv:2405.16436), eq. 4.2, with the chosen
    responses as its baseline distribution.
    """
    from components.modeling.supervised.pair_losses import logistic_loss

    margin = config.beta * gap(compared.log_ratios())
    likelihood = (compared.mean_logprobs() if config.averaged else compared.logprobs)[0::2]
    loss = logistic_loss(margin, config.label_smoothing)
    return Loss(loss=loss - config.eta * config.beta * likelihood if config.eta else loss, margin=margin)
