"""Finished parts of a measurement, kept in partial checkpoints so that a killed stage does not sample them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.context import StageContext
from components.measure.browse import write_samples
from components.measure.outcomes import ItemOutcomes, by_domain, outcomes_from_row, outcomes_to_row
from components.tasks.item import Item

FILE = "outcomes.jsonl"
BROWSED_PROMPTS, BROWSED_RESPONSES = 16, 4
"""Of each domain, what people can read while the measurement goes on."""


class Journal:
    """Outcomes by part name; parts must come in the same order each time."""

    def __init__(self, ctx: StageContext[Any], items: Iterable[Item], *, every: int) -> None:
        """Read what an earlier attempt left; a checkpoint is made after each `every` parts (0 for none)."""
        self._ctx, self._every = ctx, every
        self._parts: dict[str, list[ItemOutcomes]] = {}
        resumed = ctx.resume()
        if resumed is not None:
            self._read(resumed, {item.id: item for item in items})

    def part(self, name: str, measure: Callable[[], list[ItemOutcomes]]) -> list[ItemOutcomes]:
        """Return the outcomes of part `name`, measured now unless an earlier attempt did."""
        if name not in self._parts:
            self._parts[name] = measure()
            if self._every and len(self._parts) % self._every == 0:
                self._ctx.checkpoint(len(self._parts), self._write)
        return self._parts[name]

    def _write(self, folder: Path) -> None:
        with (folder / FILE).open("wb") as stream:
            for name, outcomes in self._parts.items():
                row = {"part": name, "outcomes": [outcomes_to_row(outcome) for outcome in outcomes]}
                stream.write(canonical_json(row) + b"\n")
        measured = by_domain(outcome for outcomes in self._parts.values() for outcome in outcomes)
        write_samples(folder, measured, prompts=BROWSED_PROMPTS, responses=BROWSED_RESPONSES)

    def _read(self, folder: Path, items: dict[str, Item]) -> None:
        with (folder / FILE).open(encoding="utf-8") as stream:
            for line in stream:
                row = json.loads(line)
                self._parts[row["part"]] = [outcomes_from_row(entry, items[entry["id"]]) for entry in row["outcomes"]]
