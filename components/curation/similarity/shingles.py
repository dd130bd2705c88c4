"""Shingles: a text as the set of its n-grams of words or characters, each a 64-bit hash."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from components.curation.similarity.tokens import tokens

Hashes: TypeAlias = npt.NDArray[np.uint64]
Unsigned = TypeVar("Unsigned", np.uint32, np.uint64)
CACHED_WORDS = 1 << 18
BASE = np.uint64(0x9E3779B97F4A7C15)


def shingles(text: str, *, ngram: int, unit: str) -> Hashes:
    """Return the hashes of a text's distinct shingles, in rising order; none for an empty text.

    A text of fewer than `ngram` units is one shingle. Equal on every machine and in every process.
    """
    units = _hashed_words(text) if unit == "word" else _hashed_characters(text)
    if not len(units):
        return units
    size = min(ngram, len(units))
    count = len(units) - size + 1
    found = np.zeros(count, np.uint64)
    for offset in range(size):
        found *= BASE
        found += units[offset : offset + count]
    found = mixed(found)
    found.sort()
    return distinct(found)


def distinct(found: npt.NDArray[Unsigned]) -> npt.NDArray[Unsigned]:
    """Return the distinct values of an array in rising order."""
    new = np.empty(len(found), bool)
    new[:1] = True
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]


def count_shared(own: Hashes, others: Hashes) -> int:
    """Return how many hashes of `own` are among `others`; both are distinct and in rising order."""
    if not len(others):
        return 0
    places = np.minimum(np.searchsorted(others, own), len(others) - 1)
    return int((others[places] == own).sum())


def mixed(values: Hashes) -> Hashes:
    """Return values whose every bit depends on all bits of the given ones (SplitMix64, Steele et al. 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hashed_words(text: str) -> Hashes:
    words = tokens(text)
    return np.fromiter(map(_hashed_word, words), np.uint64, len(words))


@lru_cache(CACHED_WORDS)
def _hashed_word(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashed_characters(text: str) -> Hashes:
    points = np.frombuffer(" ".join(tokens(text)).encode("utf-32-le", "surrogatepass"), "<u4")
    return mixed(points.astype(np.uint64) + BASE)
