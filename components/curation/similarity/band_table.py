"""BandTable: which rows have a band key, in a few bytes for each key."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

ROW_BITS, TAG_BITS = 27, 36
ROW_MASK = (1 << ROW_BITS) - 1
MANY = 1 << ROW_BITS
TAG_SHIFT = ROW_BITS + 1
MAX_ROWS = ROW_MASK
MAX_LOAD = 0.6
FIRST_BITS = 12
SPREAD = 0x9E3779B97F4A7C15
ALL_BITS = (1 << 64) - 1


class BandTable:
    """A hash table with open addressing, 8 bytes a slot: 36 bits of the key, and the first row that has it.

    Further rows of a key are in lists. Two keys that agree in 36 bits share an entry, so a row may be proposed in vain;
    with 25 million keys that happens to 1 in 150 texts. Plain loops, since a text has few keys: an array operation
    costs more than a look at a slot.
    """

    def __init__(self, first_bits: int = FIRST_BITS) -> None:
        self._bits = first_bits
        self._slots = _empty(first_bits)
        self._used = 0
        self._further: dict[int, array[int]] = {}

    def rows(self, keys: Iterable[int]) -> list[int]:
        """Return the rows that have one of these 64-bit keys, those with the most keys in common first."""
        found: list[int] = []
        for key in keys:
            tag = key >> TAG_SHIFT
            word = self._slots[self._slot(tag)]
            if word:
                found.append((word & ROW_MASK) - 1)
                if word & MANY:
                    found += self._further[tag]
        return [row for row, _ in Counter(found).most_common()] if found else found

    def add(self, keys: Iterable[int], row: int) -> None:
        """Add a row with its keys; raise OverflowError for row 134,217,727 and beyond."""
        if row >= MAX_ROWS:
            raise OverflowError(f"an index of near duplicates holds at most {MAX_ROWS:,} rows")
        for key in keys:
            tag = key >> TAG_SHIFT
            slot = self._slot(tag)
            if self._slots[slot]:
                self._slots[slot] |= MANY
                self._further.setdefault(tag, array("I")).append(row)
                continue
            self._slots[slot] = tag << TAG_SHIFT | row + 1
            self._used += 1
            if self._used > MAX_LOAD * len(self._slots):
                self._grow()

    def _slot(self, tag: int) -> int:
        """Return the slot that holds the tag, or the empty one where its search ends."""
        slots, last = self._slots, len(self._slots) - 1
        slot = (tag * SPREAD & ALL_BITS) >> 64 - self._bits
        while (word := slots[slot]) and word >> TAG_SHIFT != tag:
            slot = slot + 1 & last
        return slot

    def _grow(self) -> None:
        """Double the slots; in the order of their tags' first slots, each word goes to the next empty one."""
        words = np.frombuffer(self._slots, np.uint64)
        words = words[words != 0]
        self._bits += 1
        homes = ((words >> np.uint64(TAG_SHIFT)) * np.uint64(SPREAD)) >> np.uint64(64 - self._bits)
        order = np.argsort(homes, kind="stable")
        rank = np.arange(len(words), dtype=np.int64)
        places = np.maximum.accumulate(homes[order].astype(np.int64) - rank) + rank
        self._slots = _empty(self._bits)
        inside = places <= len(self._slots) - 1
        np.frombuffer(self._slots, np.uint64)[places[inside]] = words[order][inside]
        for word in words[order][~inside].tolist():  # those that would lie behind the end go round to the start
            self._slots[self._slot(word >> TAG_SHIFT)] = word


def _empty(bits: int) -> array[int]:
    return array("Q", bytes(8 << bits))
