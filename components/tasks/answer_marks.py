r"""Marks that models and people put around a final answer, and that are no part of it.

Bold type, dollars of LaTeX, `\text{...}` around all of it, "the answer is", `x =`, a final full stop. Taken off as long
as one is left; what stands inside is not changed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_LAYERS = 12
PAIRS = (("**", "**"), ("__", "__"), ("`", "`"), ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("{", "}"))
WRAPPED = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|hbox|emph|bm|displaystyle|boxed|fbox)\s*\{((?:[^{}]|\{,\})*)\}"
)
SPACES = re.compile(r"(?:\\[,;:! ]|\\quad|\\qquad|~|\s)+")
LEAD = re.compile(
    r"[*_]*(?:(?:so|thus|therefore|hence|and|then),?\s+)?(?:the\s+|my\s+)?(?:final\s+|correct\s+|right\s+)?"
    r"(?:answer|result|solution|total|sum|value)[*_]*(?:\s+(?:is|equals)\b\s*:?|\s*[:=])(?:\*\*(?=\s))?\s*",
    re.IGNORECASE,
)
CLOSING = re.compile(r"\bI hope it is correct\.?$", re.IGNORECASE)
HEAD = re.compile(r"(?:\*\*([^*\d]*\d[^*]{0,60})\*\*|\$([^$]{1,60})\$)([\s,.][^\d*$]*)")
"""A number in bold type or LaTeX, and words without another number behind it."""
NEARLY = re.compile(r"(?:\\approx|\\simeq|\\sim|\u2248|=|(?:approximately|about|roughly|exactly)\s)\s*", re.IGNORECASE)
NAME = re.compile(
    r"((?:\\(?:text|mathrm)\{[A-Za-z ]{1,40}\}|\\?[A-Za-z][A-Za-z ]{0,30})(?:_(?:\w|\{\w{1,8}\}))?"
    r"(?:\([\w, ]{1,12}\))?)\s*(?:=|\\approx\b|\u2248)\s*(?=\S)"
)


class Bare(NamedTuple):
    """A final answer without its marks."""

    text: str
    name: str = ""
    """The name of what is answered: `x` of `x = 5`."""


def bare_answer(text: str) -> Bare:
    r"""Return an answer without the marks around it, and the name that it gives a value to.

    `**7**.`, `$7$`, `\text{7}`, "The answer is 7." are `7`; `x = 7` is `7`, named `x`. `2x = 14` stays as it is.
    """
    name = ""
    for _ in range(MOST_LAYERS):
        before = text
        text = _outer_off(CLOSING.sub("", text).strip())
        if (named := NAME.match(text)) and not LEAD.match(text):
            name, text = _name(named[1]), text[named.end() :]
        elif lead := LEAD.match(text) or NEARLY.match(text):
            text = text[lead.end() :]
        if text == before:
            break
    return Bare(text, name)


def without_layers(text: str) -> str:
    """Return a formula without bold type, a sentence's lead and its final full stop; its LaTeX stays as it is."""
    for _ in range(MOST_LAYERS):
        before, text = text, CLOSING.sub("", text).strip()
        if text.startswith("**") and text.endswith("**") and len(text) > 4:
            text = text[2:-2]
        elif text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        elif lead := LEAD.match(text):
            text = text[lead.end() :]
        if text == before:
            break
    return text


def _outer_off(text: str) -> str:
    for opening, closing in PAIRS:
        inside = text[len(opening) : -len(closing)]
        whole = text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing)
        if whole and not any(mark in inside for mark in {opening, closing}):
            return inside.strip()
    if wrapped := WRAPPED.fullmatch(text):
        return wrapped[1].strip()
    if head := HEAD.fullmatch(text):
        return f"{head[1] or head[2]}{head[3]}".strip()
    return text.rstrip(".").rstrip() if text.endswith(".") else text


def _name(text: str) -> str:
    inner = WRAPPED.sub(r"\1", text).lstrip("\\")
    return "".join(inner.split()).casefold()
