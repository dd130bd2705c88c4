"""Who answers a prompt for comparison: a demonstrator, or the starting policy. Does not import torch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.labels import ANSWERS
from components.tasks.slots import DEMONSTRATOR


class BaselineConfig(SlotConfig):
    """Where baseline answers come from."""

    demonstrators: dict[str, Annotated[OperatorSpec, DEMONSTRATOR]] = Field(default_factory=dict)
    """Domain -> what writes the baseline answer to its prompts, such as `recorded`, the answer that came with the row;
    prompts of other domains are answered by the starting policy, greedily."""

    @field_validator("demonstrators")
    @classmethod
    def _known(cls, given: Any) -> Any:
        for spec in given.values():
            spec.resolve()
        return given

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """Return that demonstrators read the items' answers; the starting policy reads none."""
        return frozenset({ANSWERS}) if self.demonstrators else frozenset()
