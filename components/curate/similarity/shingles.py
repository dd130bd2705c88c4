"""Shingles: a text as the set of its n-grams of words or characters, and the similarity of two such sets."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import Field

from components.contract.params import Params
from components.curate.switch import SWITCH

TOKEN = re.compile(r"\w+|[^\w\s]")
Shingles = frozenset[bytes]


class NearConfig(Params):
    """When two texts are near duplicates: Jaccard similarity of their shingles."""

    threshold: float = Field(default=0.8, gt=0, le=1)
    """Similarity from which a row is a near duplicate."""
    ngram: int = Field(default=5, ge=1)
    """Words or characters in a shingle; a shorter text is one shingle."""
    unit: Literal["word", "character"] = "word"
    """What shingles are made of; for short prompts made from one template, characters distinguish better."""
    permutations: int = Field(default=128, ge=16)
    """Length of MinHash signatures: longer ones miss fewer near duplicates and take more time."""


NearSwitch = Annotated[NearConfig | None, SWITCH]


def tokens(text: str) -> list[str]:
    """Return words and punctuation marks of a text, case-folded, in Unicode form NFKC."""
    return TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def shingles(text: str, *, ngram: int, unit: str) -> Shingles:
    """Return the set of a text's shingles; empty for an empty text."""
    units = tokens(text) if unit == "word" else list(" ".join(tokens(text)))
    joiner = " " if unit == "word" else ""
    count = max(1, len(units) - ngram + 1) if units else 0
    return frozenset(joiner.join(units[start : start + ngram]).encode() for start in range(count))


def jaccard(left: Shingles, right: Shingles) -> float:
    """Return |left and right| / |left or right|; 1 for two empty sets."""
    if not left and not right:
        return 1.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)
