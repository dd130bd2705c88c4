"""Picking: which rows of all parts are kept, by the few bytes that tell duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from components.curate.stream.parts import Part
from components.curation.operators.dedup import DedupConfig
from components.curation.similarity.key_set import KeySet
from components.curation.similarity.neighbours import NeighbourIndex, Sketch

KEPT, DUPLICATE, NEAR = 0, 1, 2
REASONS = {DUPLICATE: "duplicate", NEAR: "near_duplicate"}
Verdicts = npt.NDArray[np.uint8]


def pick(parts: Iterable[Part], config: DedupConfig) -> list[Verdicts]:
    """Return the verdicts on the rows of each part; of equal rows the first stays, as everywhere in curation."""
    picker = _Picker(config)
    return [picker.verdicts(part.arrays()) for part in parts]


class _Picker:
    def __init__(self, config: DedupConfig) -> None:
        self._seen = KeySet() if config.exact else None
        self._index = NeighbourIndex(config.near) if config.near else None

    def verdicts(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Verdicts:
        keys = arrays["keys"].tolist()
        found = np.zeros(len(keys), np.uint8)
        ends = np.cumsum(arrays["sizes"], dtype=np.int64) if "sizes" in arrays else np.zeros(len(keys), np.int64)
        start = 0
        for row, (key, end) in enumerate(zip(keys, ends.tolist(), strict=True)):
            sketch = Sketch(arrays["bands"][row].tolist(), arrays["members"][start:end]) if self._index else None
            found[row] = self._verdict(key, sketch)
            start = end
        return found

    def _verdict(self, key: int, sketch: Sketch | None) -> int:
        if self._seen is not None and key in self._seen:
            return DUPLICATE
        if self._index and sketch:
            if self._index.near(sketch):
                return NEAR
            self._index.add(sketch)
        if self._seen is not None:
            self._seen.add(key)
        return KEPT
