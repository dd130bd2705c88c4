"""DPO: the likelihood of a pair's label, with the policy's log-ratio to the reference as the reward."""

from __future__ import annotations

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class DpoConfig(PairLossConfig):
    """How strongly the policy is tied to the reference."""

    length_normalised: bool = False
    """Whether log-ratios are means over a response's tokens instead of sums; beta then counts per token."""


def dpo(compared: Compared, *, config: DpoConfig) -> Loss:
    """Return [E]: -log sigmoid(beta (h_chosen - h_rejected)), h = log pi - log pi_ref summed over a response.

    Source: Rafailov et al. 2023, DPO (arXiv:2305.18290), eq. 7.
    """
    from components.modeling.supervised.pair_losses import logistic_loss

    margin = config.beta * gap(compared.log_ratios(per_token=config.length_normalised))
    return Loss(loss=logistic_loss(margin, config.label_smoothing), margin=margin)
