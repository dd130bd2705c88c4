"""Words whose every letter follows from a given letter and the one behind it: easy to check, hard to begin."""

from __future__ import annotations

from collections.abc import Sequence

ALPHABET = "abcdefghij"


def sums_from_the_end(values: Sequence[int], letters: int) -> list[int]:
    """Return of each place the sum of all values from there to the end, modulo the number of letters."""
    total, found = 0, []
    for value in reversed(values):
        total = (total + value) % letters
        found.append(total)
    return found[::-1]


def values_of(word: str, letters: int) -> list[int] | None:
    """Return the places of a word's letters in the alphabet; None where one is not among the first `letters`."""
    found = [ALPHABET[:letters].find(letter) for letter in word]
    return None if -1 in found else found


def word_of(values: Sequence[int]) -> str:
    """Return the letters of places in the alphabet."""
    return "".join(ALPHABET[value] for value in values)


def num_held(given: str, word: str, letters: int) -> int:
    """Return how many constraints a word keeps, one for each given letter.

    Letter j of the word is given letter j moved on by letter j + 1 of the word, in a circle; the last one is as given.
    A constraint with a letter that is missing, or of another alphabet, is not kept.
    """
    asked = values_of(given, letters)
    assert asked is not None, "the source makes it of its own letters"
    found = [ALPHABET[:letters].find(letter) for letter in word[: len(asked)]]
    found += [-1] * (len(asked) - len(found))
    behind = [*found[1:], 0]
    triples = zip(found, asked, behind, strict=True)
    return sum(one >= 0 and next_one >= 0 and one == (own + next_one) % letters for one, own, next_one in triples)
