"""How a corpus passes through the stage without being in memory, in one piece or in shards."""

from __future__ import annotations

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params

MAX_SHARDS = 256


class StreamConfig(Params):
    """How rows lie on disk on their way."""

    rows_per_part: int = Field(default=50_000, ge=1)
    """Rows of a source that are checked between two checkpoints: as many are checked again after a kill, at most."""
    buckets: int = Field(default=256, ge=1, le=1024)
    """Files that rows are dealt out to for shuffling; one of them is in memory at a time."""


class ShardConfig(Params):
    """Which share of the rows a stage takes."""

    index: int = Field(ge=0)
    """Position of the share, from 0."""
    of: int = Field(ge=1, le=MAX_SHARDS)
    """Number of shares."""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> ShardConfig:
        if self.index >= self.of:
            raise InputError(f"shard: of {self.of} shards, the last has the index {self.of - 1}, not {self.index}")
        return self

    def takes(self, source: int, number: int) -> bool:
        """Return whether this share has a part of a source; parts go round, and each source begins one further."""
        return (source + number) % self.of == self.index
