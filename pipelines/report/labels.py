"""Labels that fit: text broken into lines of a width, with an ellipsis where even that is not enough."""

from __future__ import annotations

import re
import unicodedata

CHARACTER = 6.2
"""Width in pixels of an average character of the charts' 11 px type; wide ones, as of Chinese, take two."""
LINE_HEIGHT = 13
ELLIPSIS = "\u2026"
_PIECES = re.compile(r"[^\s,=_./:-]*[\s,=_./:-]?")  # a line may end after these marks


def text_width(text: str) -> float:
    """Return the estimated width of a text in pixels."""
    wide = sum(unicodedata.east_asian_width(mark) in "WF" for mark in text)
    return CHARACTER * (len(text) + wide)


def wrapped(text: str, width: float, max_lines: int) -> list[str]:
    """Return a text in lines that fit a width in pixels, at least one; an ellipsis ends it where lines are left out."""
    lines, rest = [], text.strip()
    while rest:
        line = _first_line(rest, width)
        rest = rest[len(line) :].lstrip()
        lines.append(line.rstrip())
    if len(lines) <= max_lines:
        return lines or [""]
    return [*lines[: max_lines - 1], shortened(lines[max_lines - 1] + ELLIPSIS, width)]


def shortened(text: str, width: float) -> str:
    """Return a text in one line that fits a width in pixels, with an ellipsis where it was cut."""
    if text_width(text) <= width:
        return text
    text = text.removesuffix(ELLIPSIS)
    while text and text_width(text + ELLIPSIS) > width:
        text = text[:-1]
    return text + ELLIPSIS


def _first_line(text: str, width: float) -> str:
    line = ""
    for piece in _PIECES.findall(text):
        if line and text_width((line + piece).rstrip()) > width:
            return line
        line += piece
        if text_width(line.rstrip()) > width:  # one piece that is wider than the line
            return _cut(line, width)
    return line


def _cut(text: str, width: float) -> str:
    end = 1
    while end < len(text) and text_width(text[: end + 1]) <= width:
        end += 1
    return text[:end]
