r"""One reader of numbers, as models and people write them: exact values, never two numbers joined into one.

Each doubt falls to "no number", because a false right is worse than a false wrong:

- `7 8`, `7 or 8`, `1, 234`, `(1,234)`, `7!`, `5x`, `2x = 14`, `3 + 4`, `1,5`, `1.234,5`, `0,123`, `\pm 2`: no numbers.
- `3 1/2` and `3\frac{1}{2}` are mixed fractions, where the fraction is below 1; `3-1/2` is a difference, no number.
- `1,234`, `1{,}234`, `1\,234`, `1 234` are groups of three digits behind a first one of one to three, all with the same
  mark; `1,00,000` is the Indian form. So `7 800` is read as 7800.
- `50%` is 1/2; `50 percent` is 50 of a unit that is a word. Units are words (`13 apples`), known abbreviations (`5cm`),
  and single letters for measures behind a space or in `\text{}` (`5 m`); `5m`, `5 x` are products.
- `5 million` is 5000000; `\approx 3.14` is 3.14. An exponent above 300 and a text above 200 characters are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from components.tasks.answer_marks import SPACES, WRAPPED, bare_answer

MAX_CHARS = 200
MAX_EXPONENT = 300
"""Larger exponents are refused: 1e999999999 is ten characters, and a gigabyte as a fraction."""
INTEGER = re.compile(r"[+-]?\d+")
GAP = r"(?:[ \u00a0\u2009\u202f]|\\[,;: ]|~)"
SIGN = re.compile(r"([+-]?)\s*")
CURRENCY = re.compile(r"(?:(?:US)?\\?\$|[\u00a3\u20ac\u00a5\u20b9]|(?:USD|EUR|GBP)\s)\s*")
DIGITS = re.compile(
    r"(?P<grouped>[1-9]\d{0,2}(?P<mark>,(?:\\!)?\s?(?<!, )|\{,\}|\\,|\u2009|\u202f|\u00a0| )\d{3}(?:(?P=mark)\d{3})*"
    r"|[1-9]\d?(?:,\d\d)+,\d{3}|\d+)?(?P<rest>\.\d*)?(?P<exponent>e[+-]?\d+)?",
    re.IGNORECASE,
)
NOT_BEHIND = re.compile(r"[\d.,]*\d|\{,\}\d|\\,\d|[ \u00a0\u2009\u202f]+\d")
FRACTION = re.compile(
    r"\\[dtc]?frac\s*(?:\{\s*([+-]?)\s*([^{}]{1,60}?)\s*\}|(\d))\s*(?:\{\s*([+-]?)\s*([^{}]{1,60}?)\s*\}|(\d))"
)
PROPER = re.compile(r"(?:\s+and\s+|\s+)(\d+)\s*/\s*(\d+)(?![\d.,/])")
SLASH = re.compile(r"\s*/\s*")
POWER = re.compile(
    r"\s*(?:\\times|\\cdot|[\u00d7\u00b7*x])\s*10\s*(?:\^|\*\*)\s*(?:\{\s*([+-]?\d+)\s*\}|\(\s*([+-]?\d+)\s*\)|([+-]?\d+))"
)
TEN = re.compile(r"10\s*\^\s*(?:\{\s*([+-]?\d+)\s*\}|([+-]?\d+))")
PERCENT = re.compile(r"(?:\\[,;:! ]|\s)*\\?%")
DEGREES = re.compile(r"\s*(?:\^\s*(?:\\circ|\{\s*\\circ\s*\})|\u00b0|\\degree)(?:\s*[CF]\b)?")
POWER_OF_UNIT = re.compile(r"(?<=[A-Za-z])\s*(?:\^\s*\{?\s*([23])\s*\}?|([\u00b2\u00b3]))")
RAISED_UNIT = {"\u00b2": "2", "\u00b3": "3"}
UNIT = re.compile(r"[^\W\d_]+(?:[ /.-]+[^\W\d_]+){0,4}")
SIGNS = str.maketrans(
    {"\u2212": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-", "\uff05": "%", "\uff0e": ".",
     "\uff0c": ",", "\uff0f": "/", "\u2044": "/", "\uff0b": "+"}
)  # fmt: skip
RAISED = re.compile(r"(?<=10)([\u207a\u207b]?)([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)")
FROM_RAISED = str.maketrans("\u207a\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "+-0123456789")
VULGAR = {
    "\u00bd": "1/2", "\u2153": "1/3", "\u2154": "2/3", "\u00bc": "1/4", "\u00be": "3/4", "\u2155": "1/5",
    "\u2156": "2/5", "\u2157": "3/5", "\u2158": "4/5", "\u2159": "1/6", "\u215a": "5/6", "\u215b": "1/8",
    "\u215c": "3/8", "\u215d": "5/8", "\u215e": "7/8",
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
NO_UNIT = re.compile(
    r"or|and|to|plus|minus|times|over|mod|modulo|choose|of|not|no|isn|isnt|are|was|wrong|incorrect|false|but|except|less"
    r"|more|than|least|most|between|sqrt|sin|cos|tan|log|exp|factorial|squared|cubed|half|thirds?|quarters?|halves|tenths"
    r"|base|binary|hex|remainder|then|because|maybe|perhaps|with|point|one|two|three|four|five|six|seven|eight|nine|ten"
)
"""Words that make something else of the number before them."""
SHORT_UNIT = re.compile(
    r"[mcdkn]m|[mk]?g|lbs?|oz|[mcd]l|[km]?hz|kwh?|kj|k?pa|mph|kmh|km/h|m/s|ft|yd|mi|sec|hrs?|[ap]m|usd|eur|deg|rad|min"
)
SMALL_WORD = re.compile(r"[mghsl]|in|on|at|by|a|an|us")
"""Short words that a space must part from the number: measures, and the small words of a longer unit."""
VOWEL = re.compile(r"[aeiouy]|[^\x00-\x7f]")


class Number(NamedTuple):
    """A number as it was read."""

    value: Fraction
    unit: str = ""
    """Its unit in small letters, "%" for a percent sign."""
    name: str = ""
    """The name that it was given to: `x` of `x = 5`."""


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of `text`, or None when it is not a single number."""
    if len(text) <= MAX_CHARS and INTEGER.fullmatch(text):  # most answers; what follows takes many times as long
        return Fraction(int(text))
    number = read_number(text)
    return None if number is None else number.value


def read_number(text: str) -> Number | None:
    """Return the number that `text` is, with its unit and name; None when it is not a single number."""
    if len(text) > MAX_CHARS or not any(map(str.isnumeric, text)):
        return None
    bare = bare_answer(_plain(text))
    text = bare.text
    if text[:1] == "(" and text[-1:] == ")" and "," not in text:  # with a comma it may be a pair
        text = text[1:-1].strip()
    sign = SIGN.match(text)
    assert sign is not None
    at = _behind(CURRENCY, text, sign.end())
    if not sign[1] and at > sign.end() and (later := SIGN.match(text, at)):  # $-5
        sign, at = later, later.end()
    quantity = _quantity(text, at)
    if quantity is None:
        return None
    value, at = quantity
    unit = _unit(text[at:])
    if unit is None:
        return None
    scale, _, rest = unit.partition(" ")
    if scale in SCALES:
        value, unit = value * SCALES[scale], rest
    value = value / 100 if unit == "%" else value
    return Number(-value if sign[1] == "-" else value, unit, bare.name)


def agree(expected: Number, given: Number, absolute: float = 0.0, relative: float = 0.0) -> bool:
    """Return whether two numbers are the same quantity, within either tolerance of the expected one."""
    if any(left and right and left != right for left, right in ((expected.name, given.name), _units(expected, given))):
        return False
    allowed = max(Fraction(absolute), Fraction(relative) * abs(expected.value))
    if abs(given.value - expected.value) <= allowed:
        return True
    # beside a number above 1 without a unit, a percent sign says what both count: 50% and 50
    signed, bare = (given, expected) if given.unit == "%" else (expected, given)
    return signed.unit == "%" and not bare.unit and abs(bare.value) > 1 and signed.value * 100 == bare.value


def _units(expected: Number, given: Number) -> tuple[str, str]:
    """Return both units to compare, of which a percent sign is none, and many of a thing are as one."""
    left, right = (number.unit.removesuffix("s") if number.unit != "%" else "" for number in (expected, given))
    return left, right


def _plain(text: str) -> str:
    """Return `text` with one sign for each meaning: minus, slashes, fractions of one character, raised exponents."""
    if text.isascii():
        return text
    text = RAISED.sub(lambda match: f"^{{{match[0].translate(FROM_RAISED)}}}", text.translate(SIGNS))
    return "".join(f" {VULGAR[character]}" if character in VULGAR else character for character in text).strip()


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _quantity(text: str, at: int) -> tuple[Fraction, int] | None:
    """Read a fraction, a mixed fraction, or a number with its power of ten at a place: its value and its end."""
    if text.startswith("\\", at):
        return _fraction(text, at)
    if power := TEN.match(text, at):
        return _power(Fraction(1), power)
    digits = DIGITS.match(text, at)
    top = _decimal(digits)
    if digits is None or top is None:
        return None
    at = digits.end()
    whole = digits["grouped"] is not None and digits["rest"] is None and digits["exponent"] is None
    if whole and digits["mark"] != " ":
        mixed = _mixed(text, at)
        if mixed is not None:
            return top + mixed[0], mixed[1]
    if (slash := SLASH.match(text, at)) and DIGITS.match(text, slash.end())[0]:  # type: ignore[index]
        bottom = DIGITS.match(text, slash.end())
        below = _decimal(bottom)
        spaced = any(part is not None and part["mark"] in {" ", "\u00a0"} for part in (digits, bottom))
        return None if spaced or not below or bottom is None else (top / below, bottom.end())
    if power := POWER.match(text, at):
        return _power(top, power)
    return None if NOT_BEHIND.match(text, at) else (top, at)


def _mixed(text: str, at: int) -> tuple[Fraction, int] | None:
    """Read the fraction below 1 behind a whole number."""
    if proper := PROPER.match(text, at):
        top, bottom = int(proper[1]), int(proper[2])
        return (Fraction(top, bottom), proper.end()) if 0 < top < bottom else None
    start = _behind(SPACES, text, at)
    fraction = _fraction(text, start) if text.startswith("\\", start) else None
    return fraction if fraction and 0 < fraction[0] < 1 else None


def _fraction(text: str, at: int) -> tuple[Fraction, int] | None:
    match = FRACTION.match(text, at)
    if match is None:
        return None
    top, bottom = _part(match[2] or match[3]), _part(match[5] or match[6])
    if top is None or not bottom:
        return None
    negative = (match[1] == "-") != (match[4] == "-")
    return (-top / bottom if negative else top / bottom), match.end()


def _part(text: str) -> Fraction | None:
    digits = DIGITS.fullmatch(text)
    return _decimal(digits)


def _power(mantissa: Fraction, match: re.Match[str]) -> tuple[Fraction, int] | None:
    exponent = next(group for group in match.groups() if group is not None)
    if len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return None
    return mantissa * Fraction(10) ** int(exponent), match.end()


def _decimal(digits: re.Match[str] | None) -> Fraction | None:
    if digits is None:
        return None
    mantissa = "".join(filter(str.isdecimal, digits["grouped"] or "")) + (digits["rest"] or "")
    exponent = (digits["exponent"] or "")[1:] or "0"
    if not any(map(str.isdecimal, mantissa)) or len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return None
    return Fraction(Decimal(f"{mantissa}e{exponent}"))


def _unit(text: str) -> str | None:
    """Return the unit that the rest of a number is, "" for none, None if it is anything else."""
    if not text:
        return ""
    if percent := PERCENT.match(text):
        return "%" if not text[percent.end() :].strip() else None
    if CURRENCY.fullmatch(text.strip()):
        return ""
    degrees = DEGREES.match(text)
    rest = text[degrees.end() :] if degrees else text
    words = SPACES.sub(" ", WRAPPED.sub(r" \1 ", rest))
    powers = "".join(match[1] or RAISED_UNIT[match[2]] for match in POWER_OF_UNIT.finditer(words))
    words = POWER_OF_UNIT.sub("", words)
    if "\n" in rest:
        return None
    spaced, words = words[:1] == " " or bool(degrees), words.strip().rstrip(".").casefold()
    if not words:
        return "degrees" if degrees else ""
    if not UNIT.fullmatch(words) or not (spaced or SHORT_UNIT.fullmatch(words)):
        return None
    return words + powers if all(map(_names_unit, re.split(r"[ /.-]+", words))) else None


def _names_unit(word: str) -> bool:
    """Return whether a word may belong to a unit; `x`, `ab` and `xyz` are variables."""
    if SHORT_UNIT.fullmatch(word) or SMALL_WORD.fullmatch(word):
        return True
    return (len(word) > 2 or not word.isascii()) and bool(VOWEL.search(word)) and not NO_UNIT.fullmatch(word)
