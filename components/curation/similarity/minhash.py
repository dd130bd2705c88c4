"""MinHash signatures of shingles, cut into bands: texts that share a band are candidates for near duplicates."""

from __future__ import annotations

import numpy as np

from components.curation.similarity.shingles import BASE, Hashes, mixed

MAX_MISSED = 1e-3
"""Of pairs at the threshold, the share that may have no band in common."""
LARGEST = np.uint64((1 << 64) - 1)
BLOCK = 256
"""Shingles hashed at a time, so that the products stay in the processor's cache."""


class Bands:
    """Makes the band keys of a text (Broder 1997; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4).

    Of two texts with similarity s, a band of r minima is equal with probability s^r. Bands are as long as they can be,
    and then as few, while at most MAX_MISSED of the pairs at the threshold share none: long bands propose few pairs in
    vain.
    """

    def __init__(self, *, threshold: float, permutations: int) -> None:
        self.length, self.count = band_shape(threshold, permutations)
        draws = mixed(np.arange(1, 3 * self.count * self.length + self.count + 1, dtype=np.uint64) * BASE)
        size = self.count * self.length
        self._factors = draws[:size] | np.uint64(1)
        self._offsets = draws[size : 2 * size]
        self._weights = (draws[2 * size : 3 * size] | np.uint64(1)).reshape(self.count, self.length)
        self._salts = draws[3 * size :]

    def keys(self, found: Hashes) -> Hashes:
        """Return one 64-bit key for each band of a text with these shingles; keys of different bands differ."""
        minima = np.full(len(self._factors), LARGEST)
        for start in range(0, len(found), BLOCK):
            hashed = found[start : start + BLOCK, None] * self._factors
            hashed += self._offsets
            np.minimum(minima, hashed.min(axis=0), out=minima)
        bands = minima.reshape(self.count, self.length)
        return mixed((bands * self._weights).sum(axis=1, dtype=np.uint64) + self._salts)


def band_shape(threshold: float, permutations: int) -> tuple[int, int]:
    """Return the minima in a band and the number of bands: at most MAX_MISSED of the pairs at the threshold are missed.

    Where that takes more than `permutations` minima, as many bands of one as there are.
    """
    for length in range(permutations, 0, -1):
        for count in range(1, permutations // length + 1):
            if (1 - threshold**length) ** count <= MAX_MISSED:
                return length, count
    return 1, permutations
