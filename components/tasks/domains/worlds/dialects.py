"""Words of a regular language, and a dialect that spells each of their letters in two ways: one common, one rare.

A word is a member where a letter of OPENERS stands right before one of CLOSERS. The dialect has letters of its own,
plain ones moved on by twelve or by eighteen; a word of the dialect is a member as the plain word that it spells is.
"""

from __future__ import annotations

import random
from itertools import pairwise

LETTERS = "abcdef"
OPENERS, CLOSERS = "ab", "cd"
COMMON, RARE = "mnopqr", "stuvwx"
"""The dialect's two spellings of LETTERS, in their order."""
MEMBER, OTHER = "y", "n"
LOWEST, HIGHEST = 1, 5
"""Ratings of a rewrite."""
_PLAIN = {**dict(zip(COMMON, LETTERS, strict=True)), **dict(zip(RARE, LETTERS, strict=True))}


def is_member(word: str) -> bool:
    """Return whether a plain word is in the language: `.*[ab][cd].*`."""
    return any(one in OPENERS and other in CLOSERS for one, other in pairwise(word))


def spell(word: str, rare: float, rng: random.Random) -> str:
    """Return a plain word in the dialect, each letter in its rare spelling with probability `rare`."""
    return "".join((RARE if rng.random() < rare else COMMON)[LETTERS.index(letter)] for letter in word)


def plain(text: str) -> str | None:
    """Return the plain word that a text of the dialect spells; None for any other text, which is hostile."""
    return "".join(_PLAIN[sign] for sign in text) if text and all(sign in _PLAIN for sign in text) else None


def fidelity(word: str, text: str) -> int:
    """Return a rewrite's rating from 1 to 5: 5 less the letters that differ.

    It is 1 where the text is not of the dialect, has another number of letters, or has changed sides.
    """
    said = plain(text) if len(text) == len(word) else None
    if said is None or is_member(said) != is_member(word):
        return LOWEST
    return max(LOWEST, HIGHEST - sum(one != other for one, other in zip(word, said, strict=True)))
