"""NeighbourIndex: finds near duplicates among many texts, by MinHash and locality-sensitive hashing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from components.curation.similarity.band_table import BandTable
from components.curation.similarity.members import Members, Short
from components.curation.similarity.minhash import Bands
from components.curation.similarity.near_config import NearConfig
from components.curation.similarity.shingles import distinct, shingles


@dataclass(frozen=True)
class Sketch:
    """What an index needs of a text: made once, to search with and to add."""

    keys: list[int]
    """One for each band of its MinHash signature."""
    members: Short
    """Its shingles, as 32-bit hashes in rising order."""


class NeighbourIndex:
    """An index of texts, searchable for near duplicates.

    Bands of MinHash signatures propose candidates, and each is compared by all its shingles, as 32-bit hashes: among
    two texts of 200 shingles one pair in 100,000 shares one by chance. A pair at the threshold is missed with a
    probability of at most minhash.MAX_MISSED, a more similar one with a smaller probability.
    """

    def __init__(self, config: NearConfig) -> None:
        self._config = config
        self._bands = Bands(threshold=config.threshold, permutations=config.permutations)
        self._table = BandTable()
        self._members = Members()

    def sketch(self, text: str) -> Sketch:
        """Return what the index needs of a text."""
        found = shingles(text, ngram=self._config.ngram, unit=self._config.unit)
        return Sketch(self._bands.keys(found).tolist(), distinct((found >> np.uint64(32)).astype(np.uint32)))

    def near(self, own: Sketch) -> bool:
        """Return whether an added text has at least the threshold's similarity."""
        rows = self._table.rows(own.keys)
        return self._members.any_similar(own.members, rows, self._config.threshold)

    def add(self, own: Sketch) -> None:
        """Add a text."""
        self._table.add(own.keys, len(self._members))
        self._members.append(own.members)
