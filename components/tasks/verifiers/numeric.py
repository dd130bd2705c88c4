"""Numbers: exact rational comparison, so 0.1 + 0.2 is 3/10 and no tolerance is needed unless it is asked for."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from pydantic import Field

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 200
MAX_EXPONENT = 300
"""Larger exponents are refused: 1e999999999 is ten characters, and a gigabyte as a fraction."""
NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:e[+-]?\d+)?"
VALUE = re.compile(rf"(?P<sign>[+-]?)(?P<top>{NUMBER})(?:/(?P<bottom>{NUMBER}))?(?P<percent>%?)", re.IGNORECASE)
INTEGER = re.compile(r"[+-]?\d+")
LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
DROPPED = re.compile(r"\\[!,;: ]|[$\u00a3\u20ac\s]|\\text\{[^{}]*\}|\\%(?=%)")
MINUS_SIGNS = str.maketrans({"\u2212": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})


class NumericConfig(Params):
    """How near is right. A response is right when it is within either tolerance."""

    absolute_tolerance: float = Field(default=0.0, ge=0)
    """Largest difference to the reference."""
    relative_tolerance: float = Field(default=0.0, ge=0)
    """Largest difference as a share of the reference's size."""


def numeric(item: Item, response: str, *, config: NumericConfig) -> Verdict:
    """Judge by the value of a number: integers, decimals, 1,000s, 1e3, 3/4, \\frac{3}{4}, 50 %, leading currency.

    Text that is not a number is WRONG; a reference that is not one is a broken item.
    """
    expected = parse_number(item.answer)
    if expected is None:
        raise BrokenItem(f"the reference {item.answer!r} is no number")
    text = extract_answer(response)
    given = parse_number(text)
    if given is None:
        return wrong(f"not a number: {text[:80]!r}")
    return RIGHT if given == expected or _is_near(given, expected, config) else wrong(f"answered {text[:80]}")


def _is_near(given: Fraction, expected: Fraction, config: NumericConfig) -> bool:
    if not config.absolute_tolerance and not config.relative_tolerance:
        return False
    allowed = max(Fraction(config.absolute_tolerance), Fraction(config.relative_tolerance) * abs(expected))
    return abs(given - expected) <= allowed


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of `text`, or None when it is not a single number."""
    if len(text) > MAX_CHARS:
        return None
    if INTEGER.fullmatch(text):  # most answers; what follows takes four times as long
        return Fraction(int(text))
    text = LATEX_FRACTION.sub(r"\1/\2", text.translate(MINUS_SIGNS).replace("\\%", "%"))
    match = VALUE.fullmatch(DROPPED.sub("", text).rstrip("."))
    if not match:
        return None
    top = _decimal(match["top"])
    bottom = Fraction(1) if match["bottom"] is None else _decimal(match["bottom"])
    if top is None or not bottom:
        return None
    value = top / bottom / (100 if match["percent"] else 1)
    return -value if match["sign"] == "-" else value


def _decimal(text: str) -> Fraction | None:
    mantissa, _, exponent = text.lower().replace(",", "").partition("e")
    if not any(character.isdigit() for character in mantissa) or abs(int(exponent or 0)) > MAX_EXPONENT:
        return None
    return Fraction(Decimal(f"{mantissa}e{exponent or 0}"))
