"""Sifting: rows of a source, each checked by itself, in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from components.curate.params import CurateParams
from components.curate.render import Writer
from components.curate.stream.parts import Facts, Part, PartWriter
from components.curate.stream_config import StreamConfig
from components.curation.candidate import Candidate, RowCheck, candidate_of
from components.curation.operators.dedup import content_key
from components.curation.similarity.neighbours import NeighbourIndex
from components.tasks.item import Item
from components.tasks.source import BadRow, SourceRow

KEY_BYTES = 8
"""Of a text's digest: among a billion rows two different ones share them with a probability of 3 %."""
PROGRESS_EVERY = 1024


@dataclass
class Sifter:
    """Checks rows by themselves and writes those that pass; the verdict on a row depends on no other row."""

    params: CurateParams
    checks: Iterable[RowCheck]
    seed: int
    progress: Callable[[int], None]
    drawn: int = 0
    """Rows of all parts so far."""

    def __post_init__(self) -> None:
        near = self.params.dedup.near
        self._writer = Writer(self.params, self.seed)
        self._index = NeighbourIndex(near) if near else None
        self.rows_per_part = (self.params.streamed or StreamConfig()).rows_per_part

    def part(self, part: Part, rows: Iterator[SourceRow | BadRow], source: int, number: int) -> Facts:
        """Make the next part of a source's rows, and return its counts; without any more rows there is no part."""
        facts = Facts(source, number)
        first = next(rows, None)
        if first is None:
            return facts
        writer = PartWriter(part)
        self._add(first, facts, writer)
        for row in islice(rows, self.rows_per_part - 1):
            self._add(row, facts, writer)
        writer.close(facts)
        return facts

    def _add(self, row: SourceRow | BadRow, facts: Facts, writer: PartWriter) -> None:
        facts.drawn += 1
        self.drawn += 1
        if self.drawn % PROGRESS_EVERY == 0:
            self.progress(self.drawn)
        if isinstance(row, BadRow):
            facts.drops[row.reason] += 1
            return
        draft = candidate_of(row, facts.source, self.params.sources[facts.source].domain)
        _note(draft, facts)
        if reason := next((reason for check in self.checks if (reason := check.reject(draft))), None):
            facts.drops[reason] += 1
            return
        key = int.from_bytes(content_key(draft)[:KEY_BYTES], "little")
        sketch = self._index.sketch(draft.content) if self._index else None
        if self._writer.is_written(draft):
            writer.add({**self._writer.text(draft, 0), "id": draft.id}, key, sketch)
        else:  # who answers depends on how many rows passed before it, which other parts know
            writer.add(_item(draft).row(), key, sketch, asked=True)
        facts.passed += 1


def _item(draft: Candidate) -> Item:
    assert draft.item is not None, "a draft without a text holds an item"
    return draft.item


def _note(draft: Candidate, facts: Facts) -> None:
    """Count a drawn row, for the histograms before curation."""
    facts.domains[draft.domain] += 1
    facts.prompt_chars[len(draft.content)] += 1
    if draft.item is not None:
        facts.answer_chars[len(draft.item.answer)] += 1
