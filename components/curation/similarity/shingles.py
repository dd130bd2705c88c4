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
    found = mixed(np.correlate(units, _powers(min(ngram, len(units))), "valid"))
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
    found = values >> np.uint64(30)
    found ^= values
    found *= np.uint64(0xBF58476D1CE4E5B9)
    shifted = found >> np.uint64(27)
    found ^= shifted
    found *= np.uint64(0x94D049BB133111EB)
    np.right_shift(found, np.uint64(31), out=shifted)
    found ^= shifted
    return found


@lru_cache
def _powers(size: int) -> Hashes:
    """Return the factors of a shingle's units: BASE to the power of how many units follow, modulo 2^64."""
    return np.array([pow(int(BASE), size - 1 - offset, 1 << 64) for offset in range(size)], np.uint64)


def _hashed_words(text: str) -> Hashes:
    words = tokens(text)
    return np.fromiter(map(_hashed.__getitem__, words), np.uint64, len(words))


class _HashedWords(dict[str, int]):
    """Word -> its hash, made when first asked for. Emptied when full: faster than to know which word is the oldest."""

    def __missing__(self, word: str) -> int:
        if len(self) == CACHED_WORDS:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self[word] = found = int.from_bytes(digest, "little")
        return found


_hashed = _HashedWords()


def _hashed_characters(text: str) -> Hashes:
    points = np.frombuffer(" ".join(tokens(text)).encode("utf-32-le", "surrogatepass"), "<u4")
    return mixed(points.astype(np.uint64) + BASE)
