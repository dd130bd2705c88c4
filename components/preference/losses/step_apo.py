"""Step-APO: DPO on steps, whose margin must grow with how much more the chosen step is worth."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from components.preference.compared import Compared, Loss, gap
from components.preference.loss_config import PairLossConfig


class StepApoConfig(PairLossConfig):
    """How much the value of a step counts."""

    margins: ClassVar[bool] = True
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the gap of values Q(chosen) - Q(rejected), which rows hold as `margin`; 0 is step-DPO. The paper tunes
    it and names no value."""


def step_apo(compared: Compared, *, config: StepApoConfig) -> Loss:
    """Return [E]: -log sigmoid(beta (h_chosen - h_rejected) - alpha (Q_chosen - Q_rejected)), h = log pi - log pi_ref.

    Of two steps from one state the gap of values is that of advantages. Source: Wang et al. 2024, CPL
    (arXiv:2409.08642), section 3.2, in the form of the released trainer (`sigmoid_a<alpha>`).
    """
    from components.modeling.supervised.pair_losses import logistic_loss

    margin = config.beta * gap(compared.log_ratios())
    return Loss(loss=logistic_loss(margin - config.alpha * compared.margins, config.label_smoothing), margin=margin)
