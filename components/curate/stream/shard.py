"""Shards: one stage sifts a share of the rows, and another reads what all of them kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.curate.params import CurateParams
from components.curate.stream.parts import Facts, Part, parts_in
from components.curate.stream.sources import SiftedSources
from components.curate.stream_config import ShardConfig

TOLD = "shard.json"
"""File beside the parts: which share they are, and what was read."""


def sift_shard(context: StageContext[CurateParams], shard: ShardConfig) -> None:
    """Check a share of the rows and leave its parts, with what the joining stage compares."""
    folder = context.output("parts")
    sources = SiftedSources(context, folder, shard)
    sources.sift()
    told = {"index": shard.index, "of": shard.of, "rows": sources.rows, "origins": sources.origins}
    (folder / TOLD).write_text(json.dumps(told, allow_nan=False), encoding="utf-8")  # origins in their own order
    drawn, passed = (sum(getattr(facts, name) for facts in sources.counts) for name in ("drawn", "passed"))
    context.describe("parts", index=shard.index, of=shard.of, num_rows=passed)
    context.headline(num_drawn=float(drawn), num_rows=float(passed), num_dropped=float(drawn - passed))
    context.progress(drawn, max(1, drawn))


@dataclass(frozen=True)
class Joined:
    """What all shards of a stage made."""

    parts: list[tuple[Part, Facts]]
    """In the order of the sources and their rows, as one stage alone would have made them."""
    origins: list[dict[str, Any]]
    """What each source says of itself."""


def joined(folders: Sequence[Path], params: CurateParams) -> Joined:
    """Return the shards of a stage as one; raise InputError unless each is there once and all read the same rows."""
    told = [json.loads((folder / TOLD).read_text(encoding="utf-8")) for folder in folders]
    if sorted((one["index"], one["of"]) for one in told) != [(i, params.shards) for i in range(params.shards or 0)]:
        there = ", ".join(f"{one['index']} of {one['of']}" for one in told) or "none"
        raise InputError(f"shards: expected each of {params.shards} shards once, found {there}; leave `in.shards` out")
    first, *others = told
    for other in others:
        for position, share in enumerate(params.sources):
            if any(other[name][position] != first[name][position] for name in ("rows", "origins")):
                read = [f"{one['rows'][position]} rows in shard {one['index']}" for one in (first, other)]
                raise InputError(
                    f"source {share.source.name!r} changed while its shards read it ({' and '.join(read)}): pin its "
                    "`sha256` or `revision`, or leave its files as they are, and run again"
                )
    parts = [pair for folder in folders for pair in parts_in(folder)]
    parts.sort(key=lambda pair: (pair[1].source, pair[1].number))
    return Joined(parts, first["origins"])
