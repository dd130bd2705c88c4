"""Literal lists: brackets, numbers and plain strings, and nothing that Python could evaluate further."""

from __future__ import annotations

import re

MAX_CHARS = 20_000
MAX_DEPTH = 4
CLOSING = {"[": "]", "(": ")"}
TOKEN = re.compile(r"""\s*(?:(?P<open>[\[(])|(?P<close>[\])])|(?P<comma>,)|(?P<value>
    -?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?
    | '[^'\\\n\r\x00]*' | "[^"\\\n\r\x00]*"
    ))""", re.VERBOSE | re.ASCII)  # fmt: skip


def is_literal(text: str) -> bool:
    """Return whether `text` is a number, a plain text, or a list or tuple of such things, however nested.

    Nested up to MAX_DEPTH brackets. Never raises, and takes one pass over the text.
    """
    if len(text) > MAX_CHARS:
        return False
    opened: list[str] = []
    before, place, text = "comma", 0, text.rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            return False
        kind, mark = str(match.lastgroup), match[str(match.lastgroup)]
        wants_value = before in ("comma", "open")
        if kind == "close":
            if not opened or opened.pop() != mark or (before == "comma" and text[place - 1] != ","):
                return False
        elif wants_value != (kind in ("open", "value")):
            return False
        elif kind == "open":
            opened.append(CLOSING[mark])
            if len(opened) > MAX_DEPTH:
                return False
        before, place = kind, match.end()
    return bool(text) and not opened
