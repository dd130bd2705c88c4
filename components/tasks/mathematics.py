r"""Formulas as text: written in one way for the library that compares them, and told apart where it does not.

The library takes a set for a tuple and a numeral of any base for a decimal one.
"""

from __future__ import annotations

import re
import unicodedata

from components.tasks.answer_marks import without_layers

UNCLOSED = re.compile(r"\\(?:boxed|fbox)\s*\{")
SIGNS = {
    "\u2264": "\\le ", "\u2265": "\\ge ", "\u221e": "\\infty ", "\u00d7": "\\times ", "\u00b7": "\\cdot ",
    "\u222a": "\\cup ", "\u2229": "\\cap ", "\u2260": "\\ne ", "\u2212": "-", "\u03c0": "\\pi ",
}  # fmt: skip
ROOT = re.compile(r"\u221a\s*(?:\(([^()]{1,80})\)|\{([^{}]{1,80})\}|(\d+(?:\.\d+)?|[A-Za-z]))")
RAISED = re.compile(r"(?<=[\w)}])[\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
FROM_RAISED = str.maketrans("\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "-0123456789")
SIZES = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|[$\s]")
NUMERAL = re.compile(r"(?:\\text\{)?[0-9A-F]+\}?_\{?(?:\\text\{)?(\d{1,2})\}{0,2}")
CHOICE = re.compile(
    r"(?:\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s*\{\s*)?\(([A-J])\)(?!\s*(?:,|or\b|and\b))(.*)", re.S
)
OTHER_CHOICE = re.compile(r"\([A-J]\)")
LETTER = re.compile(r"(?:\\(?:text|textbf|textrm|mathrm|mathbf)\{)?([A-J])\}?")


def tidy(text: str) -> str:
    r"""Return a formula without sentence marks, its digits and signs in ASCII and LaTeX: `x\u00b2.` is `x^{2}`."""
    text = without_layers(text)
    if text.isascii():
        return text
    text = RAISED.sub(lambda match: f"^{{{match[0].translate(FROM_RAISED)}}}", text)
    text = ROOT.sub(lambda match: f"\\sqrt{{{match[1] or match[2] or match[3]}}}", text)
    return "".join(SIGNS.get(character) or _digit(character) for character in text)


def unclosed_box(text: str) -> bool:
    """Return whether an answer was cut within a box."""
    return UNCLOSED.search(text) is not None


def differ_in_kind(expected: str, given: str) -> bool:
    """Return whether one is a set and the other a tuple, or the expected numeral's base is not that of the other."""
    left, right = (SIZES.sub("", without_layers(text)) for text in (expected, given))
    if {_brackets(left), _brackets(right)} == {"set", "tuple"}:
        return True
    base, other = NUMERAL.fullmatch(left), NUMERAL.fullmatch(right)
    return base is not None and (other is None or base[1] != other[1])


def letter_of(text: str) -> str:
    r"""Return the letter of the option that an answer is, "" for none: `B`, `(B)`, `\textbf{(B)}\ 12`."""
    text = without_layers(text).strip("$ ")
    if letter := LETTER.fullmatch(text):
        return letter[1]
    choice = CHOICE.fullmatch(text)
    return choice[1] if choice and not OTHER_CHOICE.search(choice[2]) else ""


def _brackets(text: str) -> str:
    if text.startswith("\\{") and text.endswith("\\}"):
        return "set"
    return "tuple" if text.startswith("(") and text.endswith(")") and "," in text else ""


def _digit(character: str) -> str:
    wide = "\uff01" <= character <= "\uff5e"
    return unicodedata.normalize("NFKC", character) if wide else character
