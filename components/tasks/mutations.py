"""Mutations: wrong answers near the right one."""

from __future__ import annotations

import random
import re
import unicodedata
from fractions import Fraction

from components.tasks.verifiers.numeric import parse_number

MAX_TRIES = 20
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "123456789"
STEPS = (-10, -3, -2, -1, 1, 2, 3, 10)
NO_CORE = re.compile(r"[^a-z0-9]+")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def mutate(answer: str, rng: random.Random) -> str:
    """Return another answer: a number changes a little, a text in one letter or in the first digit of a number.

    The result differs from `answer` by more than case, white space, punctuation, variants of a letter and rounding,
    so that no fair verifier accepts it.
    """
    value = parse_number(answer)
    if value is not None:
        return _move(value, answer, rng)
    kinds = (_change_number,) if NUMBER.search(answer) else (_replace, _replace, _swap, _drop)
    for _ in range(MAX_TRIES):
        changed = rng.choice(kinds)(answer, rng)
        if _core(changed) != _core(answer):
            return changed
    return f"{answer}{rng.choice(LETTERS)}"


def _move(value: Fraction, answer: str, rng: random.Random) -> str:
    """Return a number near `value` that differs in more than its sign, which is punctuation to some verifiers."""
    core = _core(answer)
    return rng.choice([text for text in _near(value) if _core(text) != core])


def _near(value: Fraction) -> list[str]:
    if value.denominator == 1:
        return [str(value.numerator + step) for step in STEPS]
    moved = [value * (1 + Fraction(step, 7)) for step in STEPS]
    return [str(number) if number.denominator == 1 else f"{float(number):.6g}" for number in moved]


def _core(text: str) -> str:
    """Return the part that every verifier compares: letters and digits, case and variants normalised."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return NO_CORE.sub("", text.lower()) if text.isascii() else "".join(filter(str.isalnum, text))


def _places(text: str) -> list[int]:
    return [index for index, character in enumerate(text) if character.isalnum()]


def _change_number(text: str, rng: random.Random) -> str:
    """Change the first digit of a number: later ones may be within a verifier's tolerance."""
    index = rng.choice([match.start() for match in NUMBER.finditer(text)])
    return text[:index] + rng.choice([digit for digit in DIGITS if digit != text[index]]) + text[index + 1 :]


def _replace(text: str, rng: random.Random) -> str:
    places = _places(text)
    if not places:
        return text
    index = rng.choice(places)
    new = rng.choice(LETTERS)
    return text[:index] + (new.upper() if text[index].isupper() else new) + text[index + 1 :]


def _swap(text: str, rng: random.Random) -> str:
    places = _places(text)
    if len(places) < 2:
        return text
    position = rng.randrange(len(places) - 1)
    first, second = places[position], places[position + 1]
    characters = list(text)
    characters[first], characters[second] = characters[second], characters[first]
    return "".join(characters)


def _drop(text: str, rng: random.Random) -> str:
    places = _places(text)
    if len(places) < 2:
        return text
    index = rng.choice(places)
    return text[:index] + text[index + 1 :]
