"""The slot of reward_model."""

from __future__ import annotations

from components.contract.slots import Slot
from components.reward_model.config import ScorerLossConfig

SCORER_LOSS = Slot(
    name="scorer_loss",
    package=f"{__package__}.losses",
    summary="What a reward model's scores are fitted to",
    call="(scored: Scored) -> Tensor, the loss of each row [U], or of each place where the config says so [M]",
    config=ScorerLossConfig,
    default="bradley_terry",
)
