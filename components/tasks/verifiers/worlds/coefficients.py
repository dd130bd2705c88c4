"""Several numbers at once, exact and all or nothing: coefficients, reactions, roots."""

from __future__ import annotations

import re
from fractions import Fraction

from pydantic import Field

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.numbers import parse_number
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 2000
BETWEEN = re.compile(r"[\s,;&]+")
EQUALS = re.compile(r"\s*=\s*")
NAMED = re.compile(r"^[A-Za-z][A-Za-z0-9_{}]*=")
FILLING = frozenset({"and", ""})


class CoefficientsConfig(Params):
    """What counts as the same numbers."""

    ordered: bool = True
    """Whether their order counts; else they are compared as a set with repetitions."""
    tolerance: float = Field(default=0.0, ge=0)
    """Largest difference of each to the reference."""
    unit: str = "P"
    """What may follow a number without a meaning of its own: `3/2 P`."""


def coefficients(item: Item, response: str, *, config: CoefficientsConfig) -> Verdict:
    """Judge numbers such as `8/3 13/3` or `R_A = 8/3 P, R_B = 13/3 P`; RIGHT if all agree, and as many are given.

    Numbers are read as verifier `numeric` reads one, exactly; names before `=` do not count.
    Source: BeamPERL, the binary reward on the parsed coefficients.
    """
    expected = read_coefficients(item.answer, config.unit)
    if not expected:
        raise BrokenItem(f"the reference {item.answer!r:.80} is no list of numbers")
    text = extract_answer(response)
    given = read_coefficients(text, config.unit)
    if given is None:
        return wrong(f"no numbers: {text[:80]!r}")
    if len(given) != len(expected):
        return wrong(f"{len(given)} numbers, expected {len(expected)}: {text[:80]!r}")
    if not config.ordered:
        given, expected = sorted(given), sorted(expected)
    near = Fraction(config.tolerance)
    if all(abs(one - other) <= near for one, other in zip(given, expected, strict=True)):
        return RIGHT
    return wrong(f"answered {text[:80]!r}")


def read_coefficients(text: str, unit: str) -> list[Fraction] | None:
    """Return the numbers of a text, or None where a piece of it is none."""
    if len(text) > MAX_CHARS:
        return None
    values = []
    for piece in BETWEEN.split(EQUALS.sub("=", text)):
        bare = NAMED.sub("", piece, count=1)
        if unit:
            bare = bare.removesuffix(unit)
        if bare in FILLING:
            continue
        value = parse_number(bare)
        if value is None:
            return None
        values.append(value)
    return values
