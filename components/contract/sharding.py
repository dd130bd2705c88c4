"""Sharding: how a stage's work is divided among stages of its own, which one joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """What a recipe adds for a stage in shards: a stage for each shard, and their outputs as inputs of the stage."""

    count: Callable[[Any], int | None]
    """Given validated parameters: how many shards the stage wants, or None if it is not divided."""
    shard: str = "shard"
    """Parameter of a shard: {index, of}."""
    counted: str = "shards"
    """Parameter that `count` reads; a shard has none."""
    port: str
    """Input of the joining stage that takes what its shards made, in their order."""
    output: str
    """Output of a shard that `port` takes."""
    inputs: tuple[str, ...]
    """Inputs that a shard takes, too."""
    joins: tuple[str, ...] = ()
    """Parameters that the joining stage alone reads: shards are the same whatever they say."""

    def params_of(self, params: Mapping[str, Any], index: int, count: int) -> dict[str, Any]:
        """Return the parameters of a shard from those of its stage."""
        kept = {name: value for name, value in params.items() if name not in (self.counted, *self.joins)}
        return {**kept, self.shard: {"index": index, "of": count}}

    def is_shard(self, params: Any) -> bool:
        """Return whether validated parameters are those of a shard."""
        return getattr(params, self.shard) is not None
