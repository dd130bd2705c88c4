"""Splits by hash: stages with disjoint ranges never share a prompt, whatever their sources and seeds."""

from __future__ import annotations

from components.contract.artifacts import hash_parts
from components.curation.candidate import Candidate
from components.curation.operators.dedup import normalised

SPAN = 1 << 32


class HashSplit:
    """Keeps rows whose prompt hashes into [low, high) of the unit interval."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high

    def reject(self, draft: Candidate) -> str | None:
        """Return "other_split" for a row outside the range."""
        place = int(hash_parts("split", normalised(draft.content))[:8], 16) / SPAN
        return None if self._low <= place < self._high else "other_split"

    def keep(self, draft: Candidate) -> None:
        """Do nothing: kept rows have no effect on this check."""
