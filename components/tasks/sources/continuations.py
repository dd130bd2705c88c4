"""Plain text cut in two: a prefix as the prompt, and its continuation in place of an answer."""

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


class ContinuationsConfig(SourceConfig):
    """Where a text may be cut, and how much of the rest is kept."""

    at: RegularExpression = r"\s"
    """Regular expression; a text is cut at one of its matches, chosen at random from the seed and the text."""
    keep_separator: bool = True
    """Whether the match ends the prefix. False where the model's prompt template adds it anyway."""
    max_chars: int = Field(default=200, ge=1)
    """Longest continuation in characters."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def continuations(request: SourceRequest, *, config: ContinuationsConfig) -> SourceRows:
    """Cut every text of the connected corpora once; texts without a place to cut are left out.

    `data["next"]` is the true continuation. Verifier exact accepts only this very text, so rows of
    plain text can be curated and counted like others; a method that learns from text uses its own reward.
    """
    if not request.datasets:
        raise InputError("source continuations: no corpus is connected; give the stage `in: {dataset: STAGE.dataset}`")
    origin = {"source": "continuations", "num_datasets": len(request.datasets), "config": config.model_dump()}
    return SourceRows(_rows(request.datasets, config, request.seed), origin)


def cut(text: str, config: ContinuationsConfig, rng: random.Random) -> tuple[str, str] | None:
    """Return prefix and continuation, neither blank, or None."""
    pairs = [
        (text[: match.end() if config.keep_separator else match.start()], text[match.end() :][: config.max_chars])
        for match in re.finditer(config.at, text)
    ]
    pairs = [(prefix, rest) for prefix, rest in pairs if prefix.strip() and rest.strip()]
    return rng.choice(pairs) if pairs else None


def _rows(folders: tuple[Path, ...], config: ContinuationsConfig, seed: int) -> Iterator[SourceRow]:
    for folder in folders:
        for where, row in iter_rows(folder):
            text = row.get("text")
            if not isinstance(text, str):
                raise InputError(f"{where}: no text; source continuations reads a dataset of kind corpus")
            if pair := cut(text, config, derive_rng(seed, "continuations", text)):
                data: dict[str, Any] = {"next": pair[1]}
                yield SourceRow(
                    where, prompt=pair[0], answer=pair[1], verifier=VERIFIER, data=data, domain=row.get("domain")
                )
