"""The slot of merge."""

from __future__ import annotations

from components.contract.slots import Slot
from components.merge.config import MergerConfig

MERGER = Slot(
    name="merger",
    package=f"{__package__}.mergers",
    summary="How one tensor is made of the same tensor of several models",
    call="(stack: Stack) -> Callable[[Block], Tensor], which merges a block of its rows",
    config=MergerConfig,
)
