"""Finished parts of a measurement, kept in partial checkpoints so that a killed stage does not sample them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from components.contract.context import StageContext
from components.measure.browse import write_samples
from components.measure.outcomes import ItemOutcomes, by_domain, outcomes_from_row, outcomes_to_row
from components.tasks.item import Item

LOG = "outcomes"
BROWSED_PROMPTS, BROWSED_RESPONSES = 16, 4
"""Of each domain, what people can read while the measurement goes on."""


class Journal:
    """Outcomes by part name; parts must come in the same order each time."""

    def __init__(self, ctx: StageContext[Any], items: Iterable[Item], *, every: int) -> None:
        """Read what an earlier attempt left; a checkpoint is made after each `every` parts (0 for none)."""
        self._ctx, self._every = ctx, every
        self._parts: dict[str, list[ItemOutcomes]] = {}
        known = {item.id: item for item in items}
        for row in ctx.appended(LOG):
            self._parts[row["part"]] = [outcomes_from_row(entry, known[entry["id"]]) for entry in row["outcomes"]]
        self._earlier = set(self._parts)

    def __contains__(self, name: str) -> bool:
        """Return whether an earlier attempt measured part `name`."""
        return name in self._earlier

    def part(self, name: str, measure: Callable[[], list[ItemOutcomes]]) -> list[ItemOutcomes]:
        """Return the outcomes of part `name`, measured now unless an earlier attempt did."""
        if name not in self._parts:
            self._parts[name] = outcomes = measure()
            self._ctx.append(LOG, [{"part": name, "outcomes": [outcomes_to_row(outcome) for outcome in outcomes]}])
            if self._every and len(self._parts) % self._every == 0:
                self._ctx.checkpoint(len(self._parts), self._write)
        return self._parts[name]

    def _write(self, folder: Path) -> None:
        measured = by_domain(outcome for outcomes in self._parts.values() for outcome in outcomes)
        write_samples(folder, measured, prompts=BROWSED_PROMPTS, responses=BROWSED_RESPONSES)
