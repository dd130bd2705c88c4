"""Filled Latin squares: whether each row and each column holds each number once."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.latin import filled, is_latin, read
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class LatinSquaresVerifierConfig(Params):
    """No settings of its own."""


def latin_squares(item: Item, response: str, *, config: LatinSquaresVerifierConfig) -> Verdict:
    """Fill the holes of `data["puzzle"]` by the answer's digits, in order; spaces and commas between do not count."""
    puzzle = item.data.get("puzzle")
    found = read(puzzle) if isinstance(puzzle, str) else None
    if found is None:
        raise BrokenItem(f"data.puzzle is no square with holes: {puzzle!r:.80}")
    square, holes = found
    text = "".join(extract_answer(response).replace(",", " ").split())
    if len(text) != len(holes) or not (text.isascii() and text.isdecimal()):
        return wrong(f"no {len(holes)} digits: {text[:40]!r}")
    return RIGHT if is_latin(filled(square, holes, [int(sign) for sign in text])) else wrong("no Latin square")
