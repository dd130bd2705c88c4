"""Settings of the toy sources."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.contract.params import Params


class SourceConfig(Params):
    """Settings of the toy source."""

    count: int = Field(default=10, ge=1)
    """Number of rows."""
    split: Literal["train", "test"] = "train"
    """Which part."""
