"""Who answers a prompt for comparison: a demonstrator, or the starting policy. Does not import torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.labels import ANSWERS
from components.tasks.slots import DEMONSTRATOR


class _WhereDemonstrated:
    """The labels that are read: answers where there is a demonstrator, none where the starting policy answers.

    A property would do for a config, but its class has the declaration as well.
    """

    def __get__(self, config: BaselineConfig | None, owner: type) -> frozenset[str]:
        return frozenset({ANSWERS}) if config is not None and config.demonstrators else frozenset()


class BaselineConfig(SlotConfig):
    """Where baseline answers come from."""

    reads: ClassVar[frozenset[str]] = _WhereDemonstrated()  # type: ignore[assignment]
    demonstrators: dict[str, Annotated[OperatorSpec, DEMONSTRATOR]] = Field(default_factory=dict)
    """Domain -> what writes the baseline answer to its prompts, such as `recorded`, the answer that came with the row;
    prompts of other domains are answered by the starting policy, greedily."""

    @field_validator("demonstrators")
    @classmethod
    def _known(cls, given: Any) -> Any:
        for spec in given.values():
            spec.resolve()
        return given
