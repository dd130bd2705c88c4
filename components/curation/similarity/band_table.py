"""BandTable: which rows have a band key, in a few bytes for each key."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

ROW_BITS, TAG_BITS = 27, 36
ROW_MASK = (1 << ROW_BITS) - 1
MANY = 1 << ROW_BITS
TAG_SHIFT = ROW_BITS + 1
MAX_ROWS = ROW_MASK
MAX_LOAD = 0.6
FIRST_BITS = 12
STRETCH = 1 << 20
"""Slots that are moved at a time when the table grows."""
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
        self._found: dict[int, int] = {}

    def rows(self, keys: Iterable[int]) -> list[int]:
        """Return the rows that have one of these 64-bit keys, those with the most keys in common first.

        Where the search of each ended is kept for `add`, which mostly follows.
        """
        found: list[int] = []
        self._found = {}
        for key in keys:
            tag = key >> TAG_SHIFT
            slot = self._found[tag] = self._slot(tag)
            if word := self._slots[slot]:
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
            slot = self._found.get(tag, -1)
            if slot < 0 or (self._slots[slot] and self._slots[slot] >> TAG_SHIFT != tag):  # not asked for, or taken
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
        """Double the slots, a stretch of them at a time, so that growth holds little beside the two tables.

        A stretch begins behind an empty slot, so its words' new slots all lie in the stretch of twice its size: in the
        order of their tags' first slots, each goes to the next empty one. Words that went round to the start of the old
        table come last.
        """
        self._found = {}
        before = np.frombuffer(self._slots, np.uint64)
        self._bits += 1
        self._slots = _empty(self._bits)
        after, late, start = np.frombuffer(self._slots, np.uint64), [], 0
        while start < len(before):
            end = _stretch_end(before, start)
            slots = start + np.flatnonzero(before[start:end])
            words = before[slots]
            homes = ((words >> np.uint64(TAG_SHIFT)) * np.uint64(SPREAD)) >> np.uint64(64 - self._bits)
            round_trip = homes > (2 * slots + 1).astype(np.uint64)
            late += words[round_trip].tolist()
            words, homes = words[~round_trip], homes[~round_trip]
            order = np.argsort(homes, kind="stable")
            rank = np.arange(len(words), dtype=np.int64)
            after[np.maximum.accumulate(homes[order].astype(np.int64) - rank) + rank] = words[order]
            start = end
        for word in late:
            self._slots[self._slot(word >> TAG_SHIFT)] = word


def _stretch_end(slots: npt.NDArray[np.uint64], start: int) -> int:
    """Return where a stretch of STRETCH slots and more ends: behind an empty slot, or with the table."""
    end = start + STRETCH
    while end < len(slots) and slots[end - 1]:
        end += 1
    return min(end, len(slots))


def _empty(bits: int) -> array[int]:
    return array("Q", bytes(8 << bits))
