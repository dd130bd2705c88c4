"""Plain text cut into segments: write the next one, or the missing one between two (RLPT)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.contract.regular import RegularExpression
from components.tasks.rows import iter_rows
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

VERIFIER = "exact"
GAP = "_"


class SegmentsConfig(SourceConfig):
    """Where a segment ends, and which of both tasks a row asks."""

    between: RegularExpression = Field(default=r"(?<=[.!?])\s+|\n+", min_length=1)
    """Regular expression of what stands between two segments; by default the ends of sentences and lines."""
    middle: float = Field(default=0.5, ge=0, le=1)
    """Probability that the following segment is shown too and the one between is asked for."""
    following: int = Field(default=3, ge=1)
    """True segments kept in `data["following"]`: a prediction may cover more than one of them."""
    max_chars: int = Field(default=200, ge=1)
    """Texts with a longer segment to be written are left out, in characters."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def segments(request: SourceRequest, *, config: SegmentsConfig) -> SourceRows:
    """Ask for one segment of every text of the connected corpora; texts with too few segments are left out.

    The prompt is what precedes it; in the task of the middle, a gap `_` and the segment behind it follow. The answer
    is the true segment, and `data["following"]` lists it with those after it that the prompt does not show.
    Source: RLPT, tasks ASR and MSR; their share of one half is reconstructed.
    """
    if not request.datasets:
        raise InputError("source segments: no corpus is connected; give the stage `in: {dataset: STAGE.dataset}`")
    origin = {"source": "segments", "num_datasets": len(request.datasets), "config": config.model_dump()}
    return SourceRows(_rows(request.datasets, config, request.seed), origin)


def _rows(folders: tuple[Path, ...], config: SegmentsConfig, seed: int) -> Iterator[SourceRow]:
    for folder in folders:
        for where, row in iter_rows(folder):
            text = row.get("text")
            if not isinstance(text, str):
                raise InputError(f"{where}: no text; source segments reads a dataset of kind corpus")
            cut = _cut(text, config, derive_rng(seed, "segments", text))
            if cut is not None:
                prompt, true = cut
                data: dict[str, Any] = {"following": true}
                yield SourceRow(
                    where, prompt=prompt, answer=true[0], verifier=VERIFIER, data=data, domain=row.get("domain")
                )


def _cut(text: str, config: SegmentsConfig, rng: random.Random) -> tuple[str, list[str]] | None:
    """Return the prompt, and the true segments from the one that is asked for."""
    found = [part.strip() for part in re.split(config.between, text) if part and part.strip()]
    middle = rng.random() < config.middle
    last = len(found) - (1 if middle else 0)
    if last < 2:
        return None
    place = rng.randrange(1, last)
    if len(found[place]) > config.max_chars:
        return None
    before = " ".join(found[:place])
    if middle:
        return f"{before} {GAP} {found[place + 1]}", [found[place]]
    return before, found[place : place + config.following]
