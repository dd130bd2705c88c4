"""Twenty-five functions from words to words, total on every word over the first letters of the alphabet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

FIRST = ord("a")
VOWELS = frozenset("aeiou")
MIN_LETTERS = 4


def _shifted(word: str, by: int, letters: int) -> str:
    return "".join(chr(FIRST + (ord(letter) - FIRST + by) % letters) for letter in word)


def _mirrored(word: str, letters: int) -> str:
    return "".join(chr(FIRST + (FIRST - ord(letter) - 1) % letters) for letter in word)


def _halves(word: str) -> tuple[str, str]:
    middle = (len(word) + 1) // 2
    return word[:middle], word[middle:]


def _interleaved(first: str, second: str) -> str:
    pairs = "".join(one + other for one, other in zip(first, second, strict=False))
    return pairs + first[len(second) :]


def _neighbours_swapped(word: str) -> str:
    return "".join(word[place : place + 2][::-1] for place in range(0, len(word), 2))


def _ends_swapped(word: str) -> str:
    return word[-1] + word[1:-1] + word[0] if len(word) > 1 else word


def _without_vowels(word: str) -> str:
    return "".join(letter for letter in word if letter not in VOWELS)


FUNCTIONS: Mapping[str, tuple[str, Callable[[str, int], str]]] = {
    "rev": ("reverse the word", lambda word, n: word[::-1]),
    "rol": ("move the first letter to the end", lambda word, n: word[1:] + word[:1]),
    "ror": ("move the last letter to the front", lambda word, n: word[-1:] + word[:-1]),
    "nxt": ("replace each letter by the next one", lambda word, n: _shifted(word, 1, n)),
    "prv": ("replace each letter by the one before", lambda word, n: _shifted(word, -1, n)),
    "two": ("replace each letter by the next but one", lambda word, n: _shifted(word, 2, n)),
    "mir": ("count each letter from the end of the alphabet", lambda word, n: _mirrored(word, n)),
    "nbr": ("swap neighbours two by two", lambda word, n: _neighbours_swapped(word)),
    "end": ("swap the first and the last letter", lambda word, n: _ends_swapped(word)),
    "hlf": ("swap the halves", lambda word, n: "".join(_halves(word)[::-1])),
    "mix": ("interleave the halves", lambda word, n: _interleaved(*_halves(word))),
    "odd": ("put the letters at odd places first", lambda word, n: word[::2] + word[1::2]),
    "srt": ("sort the letters", lambda word, n: "".join(sorted(word))),
    "dsc": ("sort the letters from the end", lambda word, n: "".join(sorted(word, reverse=True))),
    "dbl": ("write each letter twice", lambda word, n: "".join(letter * 2 for letter in word)),
    "dup": ("write the word twice", lambda word, n: word * 2),
    "pal": ("append the reversed word", lambda word, n: word + word[::-1]),
    "tail": ("drop the first letter", lambda word, n: word[1:]),
    "init": ("drop the last letter", lambda word, n: word[:-1]),
    "skip": ("keep the letters at odd places", lambda word, n: word[::2]),
    "con": ("drop the vowels", lambda word, n: _without_vowels(word)),
    "uniq": ("keep the first of equal letters", lambda word, n: "".join(dict.fromkeys(word))),
    "pre": ("put an a in front", lambda word, n: "a" + word),
    "suf": ("append a b", lambda word, n: word + "b"),
    "fst": ("repeat the first letter", lambda word, n: word[:1] + word),
}
"""Name -> what it does, and the function of a word and the size of its alphabet."""
KEEPS_LENGTH = ("rev", "rol", "ror", "nxt", "prv", "two", "mir", "nbr", "end", "hlf", "mix", "odd", "srt", "dsc")
"""Functions whose result has as many letters as the word."""


def apply_function(name: str, word: str, letters: int) -> str:
    """Return what a function gives for a word over the first `letters` letters, at most twice as long."""
    return FUNCTIONS[name][1](word, letters)


def apply_all(names: Sequence[str], word: str, letters: int) -> list[str]:
    """Return the word after each of the functions, applied in order."""
    words = []
    for name in names:
        word = apply_function(name, word, letters)
        words.append(word)
    return words
