"""KeySet: a set of 64-bit numbers in 13 to 27 bytes each."""

from __future__ import annotations

from array import array

FIRST_BITS = 12
MAX_LOAD = 0.6
SPREAD = 0x9E3779B97F4A7C15
ALL_BITS = (1 << 64) - 1


class KeySet:
    """A hash table with open addressing, 8 bytes a slot; a Python set takes 60 bytes and more for each number."""

    def __init__(self) -> None:
        self._bits = FIRST_BITS
        self._slots = array("Q", bytes(8 << FIRST_BITS))
        self._used = 0
        self._zero = False

    def __len__(self) -> int:
        return self._used + self._zero

    def __contains__(self, key: int) -> bool:
        return self._slots[self._slot(key)] == key if key else self._zero

    def add(self, key: int) -> None:
        """Add a number from 0 to 2^64 - 1."""
        if not key:  # it marks an empty slot
            self._zero = True
            return
        slot = self._slot(key)
        if not self._slots[slot]:
            self._slots[slot] = key
            self._used += 1
            if self._used > MAX_LOAD * len(self._slots):
                self._grow()

    def _slot(self, key: int) -> int:
        """Return the slot that holds the key, or the empty one where its search ends."""
        slots, last = self._slots, len(self._slots) - 1
        slot = (key * SPREAD & ALL_BITS) >> 64 - self._bits
        while (word := slots[slot]) and word != key:
            slot = slot + 1 & last
        return slot

    def _grow(self) -> None:
        before = self._slots
        self._bits += 1
        self._slots = array("Q", bytes(8 << self._bits))
        for word in before:
            if word:
                self._slots[self._slot(word)] = word
