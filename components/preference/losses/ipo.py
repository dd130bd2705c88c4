"""IPO: the gap of a pair's log-ratios is drawn to a finite target, so that certain labels drive nothing to infinity."""

from __future__ import annotations

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PreferenceLossConfig


class IpoConfig(PreferenceLossConfig):
    """Where the gap is drawn to."""

    beta: float = Field(default=0.1, gt=0)
    """The paper's tau: the gap's target is 1 / (2 beta)."""
    length_normalised: bool = True
    """Whether log-ratios are means over a response's tokens, as in the authors' experiments; else sums."""


def ipo(compared: Compared, *, config: IpoConfig) -> Loss:
    """Return [E]: (h_chosen - h_rejected - 1 / (2 beta))², h = log pi - log pi_ref of a response.

    Source: Azar et al. 2023, IPO (arXiv:2310.12036), eq. 17. The mean over tokens is the authors' practice, by TRL's
    account of it; the paper does not say.
    """
    from components.modeling.supervised.pair_losses import squared_loss

    margin = gap(compared.log_ratios(per_token=config.length_normalised))
    return Loss(loss=squared_loss(margin, config.beta), margin=margin)
