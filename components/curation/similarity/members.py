"""Members: the shingles of many texts, kept in a few bytes each, and their similarity to one text."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Short: TypeAlias = npt.NDArray[np.uint32]
"""Shingles of one text: distinct 32-bit hashes in rising order."""
BLOCK = 1 << 20
"""Hashes in one array."""
COMPARED_AT_ONCE = 256


class Members:
    """Sets of 32-bit hashes in the order of their addition: 4 bytes for each hash, 12 for each set."""

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block
        self._blocks: list[Short] = []
        self._free = 0
        self._places = np.zeros((1024, 3), np.uint32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, own: Short) -> None:
        """Add a set."""
        if len(own) > self._free:
            self._blocks.append(np.empty(max(self._block, len(own)), np.uint32))
            self._free = len(self._blocks[-1])
        if self._count == len(self._places):
            self._places = np.concatenate([self._places, np.zeros_like(self._places)])
        start = len(self._blocks[-1]) - self._free if self._blocks else 0
        if len(own):
            self._blocks[-1][start : start + len(own)] = own
        self._places[self._count] = (max(0, len(self._blocks) - 1), start, len(own))
        self._free -= len(own)
        self._count += 1

    def any_similar(self, own: Short, rows: list[int], threshold: float) -> bool:
        """Return whether one of these sets has at least the threshold's Jaccard similarity with `own`.

        Two empty sets have a similarity of 1.
        """
        for start in range(0, len(rows), COMPARED_AT_ONCE):
            part = np.array(rows[start : start + COMPARED_AT_ONCE])
            sizes = self._places[part, 2]
            if not len(own):
                return bool((sizes == 0).any())
            part = part[np.minimum(sizes, len(own)) / np.maximum(sizes, len(own)) >= threshold]
            if len(part) and bool((self._similarities(own, part) >= threshold).any()):
                return True
        return False

    def _similarities(self, own: Short, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return |own and other| / |own or other| for each of these sets, none of them empty."""
        places = self._places[rows].tolist()
        others = np.concatenate([self._blocks[block][start : start + size] for block, start, size in places])
        found = own[np.minimum(np.searchsorted(own, others), len(own) - 1)] == others
        sizes = self._places[rows, 2].astype(np.int64)
        shared = np.add.reduceat(found, np.cumsum(sizes) - sizes, dtype=np.int64)
        return shared / (len(own) + sizes - shared)
