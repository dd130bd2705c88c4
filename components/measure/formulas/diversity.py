"""Diversity of some texts: n-grams, distinct values and their entropy."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

_PIECE = re.compile(r"[^\W\d]+|\d+|\S", re.ASCII)


def pieces(text: str) -> list[str]:
    """Split text into words, numbers and single marks, the same for every tokenizer, so that models compare."""
    return _PIECE.findall(text)


def distinct_n(sequences: Sequence[Sequence[Hashable]], n: int) -> float | None:
    """Return distinct n-grams as a share of all n-grams (Li et al. 2016, distinct-n); None when there are none."""
    grams = [tuple(sequence[i : i + n]) for sequence in sequences for i in range(len(sequence) - n + 1)]
    return len(set(grams)) / len(grams) if grams else None


def unique_share(values: Sequence[Hashable]) -> float | None:
    """Return distinct values as a share of all: 1 when no two are the same; None when there are none."""
    return len(set(values)) / len(values) if values else None


def sample_entropy(values: Sequence[Hashable]) -> float | None:
    """Return the entropy in nats of the shares of distinct values; None when there are none.

    The plug-in estimate: n values give at most ln n, so compare at equal n.
    """
    shares = [count / len(values) for count in Counter(values).values()]
    return -math.fsum(share * math.log(share) for share in shares) if shares else None


def ead(sequences: Sequence[Sequence[Hashable]], n: int, vocab_size: int) -> float | None:
    """Return distinct n-grams / (V (1 - ((V - 1) / V)^C)), C being all n-grams; None when there are none."""
    grams = [tuple(sequence[i : i + n]) for sequence in sequences for i in range(len(sequence) - n + 1)]
    expected = vocab_size * -math.expm1(len(grams) * math.log1p(-1 / vocab_size))
    return len(set(grams)) / expected if grams else None
