"""StreamConfig: how a corpus passes through the stage without being in memory."""

from __future__ import annotations

from pydantic import Field

from components.contract.params import Params


class StreamConfig(Params):
    """How rows lie on disk on their way."""

    rows_per_part: int = Field(default=50_000, ge=1)
    """Rows of a source that are checked between two checkpoints: as many are checked again after a kill, at most."""
    buckets: int = Field(default=256, ge=1, le=1024)
    """Files that rows are dealt out to for shuffling; one of them is in memory at a time."""
