"""Text on a terminal: what models, rows, files and servers wrote is shown with everything invisible spelled out."""

from __future__ import annotations

import sys


def visible(text: str) -> str:
    """Return a text with everything invisible spelled out: safe for a terminal, and honest on a page.

    Control characters, ANSI escapes, bidirectional and zero-width marks and lone surrogates become `\\x1b`, `\\u202e`;
    lines and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def visible_line(text: str) -> str:
    """Return a text as `visible` does, in one line: ends of lines and tabs are spelled out, too."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def short_line(text: str, most: int) -> str:
    """Return a text in one visible line, white space as single spaces, cut to `most` characters and "..."."""
    line = visible_line(" ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}..."


def print_error(error: object) -> None:
    """Print `posttrain: ` and an error's text on standard error."""
    print(f"posttrain: {visible(str(error))}", file=sys.stderr, flush=True)
