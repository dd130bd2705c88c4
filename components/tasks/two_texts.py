"""Pairs of words that a model answers with."""

from __future__ import annotations

from components.contract.errors import InputError


def check_two(owner: str, words: tuple[str, str]) -> tuple[str, str]:
    """Return two words; raise InputError, begun by `owner`, for an empty one, or if only case and spaces differ."""
    first, second = (word.strip().casefold() for word in words)
    if not first or not second or first == second:
        raise InputError(f"{owner} {list(words)} have to be two different texts")
    return words
