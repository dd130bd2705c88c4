"""Diversity: rows that cover the others, by greedy k-centre."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from components.curate.selection.choice import NOT_SELECTED, Selection
from components.curate.selection.config import RankConfig
from components.curate.selection.context import POLICY, SelectionContext
from components.curation.candidate import Candidate
from components.curation.similarity.tokens import tokens

if TYPE_CHECKING:
    from components.measure.intervals import Floats

DIMENSIONS = 1024
"""Of hashed words and pairs of words."""


class DiversityConfig(RankConfig):
    """How many rows are kept, and what tells them apart."""

    features: Literal["words", "hidden"] = "words"
    """Words and pairs of words of a row's prompt or text, or its mean hidden state in the model at input `policy`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return `policy` for hidden states."""
        return (POLICY,) if self.features == "hidden" else ()


def diversity(rows: Sequence[Candidate], context: SelectionContext, *, config: DiversityConfig) -> Selection:
    """Keep rows of which each, when taken, was the farthest from those taken before; the first is nearest the mean.

    Distances are 1 - cosine; the score is a row's distance when it was taken. Greedy k-centre is at most twice as far
    from all rows as the best choice. Sources: Gonzalez 1985; core sets, Sener and Savarese 2018 (arXiv:1708.00489).
    """
    texts = [row.content for row in rows]
    features = word_features(texts) if config.features == "words" else _hidden_states(texts, context)
    taken = farthest_first(features, config.most(len(rows)))
    reasons = tuple(None if index in taken else NOT_SELECTED for index in range(len(rows)))
    return Selection(reasons, tuple(taken.get(index) for index in range(len(rows))), config.weigh)


def farthest_first(features: Floats, count: int) -> dict[int, float]:
    """Return row -> its distance to those taken before it, in the order of taking; the first has the largest, 2."""
    import numpy as np

    if not len(features):
        return {}
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features / np.where(lengths == 0, 1.0, lengths)
    nearest = np.full(len(unit), 2.0)
    first = int(np.argmax(unit @ unit.mean(axis=0)))
    taken = {first: 2.0}
    while len(taken) < min(count, len(unit)):
        last = next(reversed(taken))
        nearest = np.minimum(nearest, 1.0 - unit @ unit[last])
        nearest[last] = -np.inf
        chosen = int(np.argmax(nearest))
        taken[chosen] = max(0.0, float(nearest[chosen]))
    return taken


def word_features(texts: Sequence[str]) -> Floats:
    """Return [N, DIMENSIONS]: counts of hashed words and pairs of neighbouring words."""
    import numpy as np

    features = np.zeros((len(texts), DIMENSIONS))
    for row, text in enumerate(texts):
        found = tokens(text)
        for gram in (*found, *(f"{first} {second}" for first, second in pairwise(found))):
            features[row, zlib.crc32(gram.encode()) % DIMENSIONS] += 1
    return features


def _hidden_states(texts: Sequence[str], context: SelectionContext) -> Floats:
    from components.curate.selection.model_rows import hidden_states

    return hidden_states(context, texts)
