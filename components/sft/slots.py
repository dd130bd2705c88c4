"""The slot of sft."""

from __future__ import annotations

from components.contract.slots import Slot

WEIGHTING = Slot(
    name="weighting",
    package=f"{__package__}.weightings",
    summary="How much each source task counts in a step of meta-transfer",
    call="(tasks: Sequence[str], seed: int) -> Weighting, which gives weights and hears what each task gained",
    default="reinforced",
)
