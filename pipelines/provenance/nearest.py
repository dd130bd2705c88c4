"""The rows that are nearest to an item: the same row, the same text, a text that holds it, or a similar one."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.curation.similarity.shingles import Hashes, count_shared, shingles
from components.curation.similarity.tokens import tokens

NGRAM = 4
"""Characters in a shingle: prompts made from one template, and short ones, differ in few words."""
LEAST = 0.3
"""Similarity from which a row is told at all."""
MOST = 5
"""Rows that are kept of each kind of place."""


class How(StrEnum):
    """How a row is near to an item, the nearest first."""

    ID = "same id"
    TEXT = "same text"
    HOLDS = "holds it"
    SIMILAR = "similar"


RANKS = {how: rank for rank, how in enumerate(reversed(How))}


@dataclass(frozen=True)
class Asked:
    """An item of an evaluation."""

    id: str
    domain: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class Near:
    """A row that is near to an item."""

    how: How
    similarity: float
    """Jaccard similarity of their shingles."""
    number: int
    """Position of the row in its artifact, from 0."""
    row: Mapping[str, Any]

    @property
    def rank(self) -> tuple[int, float, int]:
        """Return a key that sorts the nearest last; of equal ones the first row is the nearest."""
        return RANKS[self.how], self.similarity, -self.number


class Nearest:
    """Compares rows with several items at once, and keeps the nearest of each."""

    def __init__(self, items: Sequence[Asked], most: int = MOST) -> None:
        self._most = most
        self._items = [(item, _words(item.prompt), _shingles(item.prompt)) for item in items]
        self._found: dict[str, list[tuple[tuple[int, float, int], Near]]] = {item.id: [] for item in items}
        self.num_rows = 0

    def take(self, row: Mapping[str, Any]) -> None:
        """Compare the next row of an artifact: of a corpus, of prompts, of demonstrations or of rollouts."""
        number, self.num_rows = self.num_rows, self.num_rows + 1
        text = content(row)
        words, own = _words(text), _shingles(text)
        identifier = row.get("prompt_id", row.get("id"))
        for item, item_words, item_shingles in self._items:
            shared = count_shared(item_shingles, own)
            similarity = shared / max(1, len(item_shingles) + len(own) - shared)
            how = _how(item, item_words, identifier, words, similarity)
            if how is not None:
                near = Near(how, similarity, number, row)
                kept = self._found[item.id]
                heapq.heappush(kept, (near.rank, near))
                if len(kept) > self._most:
                    heapq.heappop(kept)

    def of(self, item: Asked) -> list[Near]:
        """Return the nearest rows of an item, the nearest first."""
        return [near for _, near in sorted(self._found[item.id], key=lambda entry: entry[0], reverse=True)]


def content(row: Mapping[str, Any]) -> str:
    """Return what is compared of a row: its text, or its prompt."""
    text = row.get("text", row.get("prompt"))
    return text if isinstance(text, str) else ""


def _how(item: Asked, item_words: str, identifier: Any, words: str, similarity: float) -> How | None:
    if identifier == item.id:
        return How.ID
    if item_words.strip() and item_words in words:
        return How.TEXT if item_words == words else How.HOLDS
    return How.SIMILAR if similarity >= LEAST else None


def _words(text: str) -> str:
    """Return the words of a text between single spaces, so that whole words are found in it."""
    return f" {' '.join(tokens(text))} "


def _shingles(text: str) -> Hashes:
    return shingles(text, ngram=NGRAM, unit="character")
