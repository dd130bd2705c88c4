"""Base configs of selectors and mixtures: which inputs they need, and how many rows a ranking keeps."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params


class SelectorConfig(Params):
    """Base of selector configs."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Input ports that must be connected."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the input ports that these settings need."""
        return type(self).needs


class RankConfig(SelectorConfig):
    """Base of selectors that keep the rows with the highest scores."""

    count: int | None = Field(default=None, ge=1)
    """How many rows to keep; either this or share."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Share of all rows to keep, rounded up."""
    weigh: bool = False
    """Write a kept row's score, 0 for negative ones, as its `weight` in sft."""

    @model_validator(mode="after")
    def _one_limit(self) -> RankConfig:
        if (self.count is None) == (self.share is None):
            raise InputError("set either count or share: how many rows to keep")
        return self

    def most(self, num_rows: int) -> int:
        """Return how many of `num_rows` to keep."""
        return self.count if self.count is not None else math.ceil((self.share or 0) * num_rows)


class MixtureConfig(Params):
    """Base of mixture configs."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Input ports that must be connected."""
    by_domain: ClassVar[bool] = True
    """Whether the shares are those of domains, which each source must then name."""
