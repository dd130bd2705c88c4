"""NeighbourIndex: finds near duplicates among many texts, by MinHash and locality-sensitive hashing."""

from __future__ import annotations

from components.curate.similarity.shingles import NearConfig, Shingles, jaccard, shingles

VERSIONED_PACKAGES = ("datasketch",)
"""Its signatures choose the candidates: see components.contract.operators."""
RECALL_MARGIN = 0.2
"""Candidates are searched this far below the threshold, so that hashing misses few; each is then compared exactly."""
MIN_SEARCHED = 0.1
PERMUTATION_SEED = 1


class NeighbourIndex:
    """An index of texts, searchable for near duplicates.

    Broder 1997 (MinHash); candidates by the banding of datasketch's MinHashLSH. Every match is verified to have at
    least the threshold's similarity; a pair near the threshold may be missed with small probability.
    """

    def __init__(self, config: NearConfig) -> None:
        from datasketch import MinHashLSH

        self._config = config
        searched = max(MIN_SEARCHED, config.threshold - RECALL_MARGIN)
        self._lsh = MinHashLSH(threshold=searched, num_perm=config.permutations)
        self._texts: list[Shingles] = []

    def find(self, text: str) -> int | None:
        """Return the index (in order of addition) of the first near duplicate, or None."""
        own = self._shingles(text)
        candidates = sorted(self._lsh.query(self._signature(own)))
        return next((i for i in candidates if jaccard(own, self._texts[i]) >= self._config.threshold), None)

    def add(self, text: str) -> None:
        """Add a text."""
        own = self._shingles(text)
        self._lsh.insert(len(self._texts), self._signature(own), check_duplication=False)
        self._texts.append(own)

    def _shingles(self, text: str) -> Shingles:
        return shingles(text, ngram=self._config.ngram, unit=self._config.unit)

    def _signature(self, own: Shingles) -> object:
        from datasketch import MinHash

        signature = MinHash(num_perm=self._config.permutations, seed=PERMUTATION_SEED)
        signature.update_batch(sorted(own))
        return signature
