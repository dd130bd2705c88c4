"""The surface forms of a value between 0 and 1: 3/4 is 6/8, 0.75 and 75%."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, get_args

Form = Literal["reduced", "expanded", "decimal", "percent"]
FORMS: tuple[Form, ...] = get_args(Form)
EXPANDED_BY = 2
"""What numerator and denominator of an expanded fraction are multiplied by."""
MOST_DIGITS = 4
"""Digits behind the point that a value may have, as a decimal and as a percentage."""


def written(value: Fraction, form: Form) -> str:
    """Return a value between 0 and 1 in a form."""
    if form == "reduced":
        return f"{value.numerator}/{value.denominator}"
    if form == "expanded":
        return f"{value.numerator * EXPANDED_BY}/{value.denominator * EXPANDED_BY}"
    if form == "decimal":
        return _decimal(value)
    return f"{_decimal(value * 100)}%"


def form_of(answer: str) -> Form | Literal["other"]:
    """Return the form in which an answer is written; other for what is no fraction, decimal or percentage."""
    text = answer.strip()
    if text.endswith("%"):
        return "percent" if _is_decimal(text[:-1]) else "other"
    top, slash, bottom = text.partition("/")
    if not slash:
        return "decimal" if _is_decimal(text) else "other"
    if not (_is_digits(top) and _is_digits(bottom) and int(bottom)):
        return "other"
    return "reduced" if Fraction(int(top), int(bottom)).denominator == int(bottom) else "expanded"


def _decimal(value: Fraction) -> str:
    """Return a decimal that ends, exactly and without needless digits."""
    whole, rest = divmod(value.numerator * 10**MOST_DIGITS // value.denominator, 10**MOST_DIGITS)
    digits = f"{rest:0{MOST_DIGITS}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else f"{whole}"


def _is_decimal(text: str) -> bool:
    whole, _, part = text.partition(".")
    return _is_digits(whole) and (_is_digits(part) or "." not in text)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
