"""The slot of preference."""

from __future__ import annotations

from components.contract.slots import Slot
from components.preference.loss_config import PreferenceLossConfig

PREFERENCE_LOSS = Slot(
    name="preference_loss",
    package=f"{__package__}.losses",
    summary="What a model loses where it finds the worse response likelier: the loss of a comparison",
    call="(compared: Compared) -> Loss",
    config=PreferenceLossConfig,
    default="dpo",
)
