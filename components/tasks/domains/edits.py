"""Edits of a text: parsed, applied to the text in memory, and compared as diffs. No file is ever opened."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.contract.errors import InputError
from components.tasks.item import Item
from components.tasks.verdict import BrokenItem

Style = Literal["diff", "blocks"]
SEARCH, MIDDLE, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
MAX_CHARS = 4_000
"""Longest response that is parsed; the time to compare two texts grows with the square of their length."""
MAX_EDITS = 50


@dataclass(frozen=True)
class Edit:
    """Lines that are searched for, and what replaces them."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def render(edits: Sequence[Edit], style: Style) -> str:
    """Return edits as text: `-old` and `+new` lines, or SEARCH/REPLACE blocks as SWE-RL's prompt asks for."""
    if style == "diff":
        lines = [[*(f"-{line}" for line in edit.search), *(f"+{line}" for line in edit.replace)] for edit in edits]
        return "\n".join(line for block in lines for line in block)
    parts = [[SEARCH, *edit.search, MIDDLE, *edit.replace, REPLACE] for edit in edits]
    return "\n".join("\n".join(part) for part in parts)


def parse(text: str, style: Style) -> list[Edit] | None:
    """Return the edits that a text consists of; None if it is anything else, has none, or is too long."""
    if len(text) > MAX_CHARS or "\r" in text or "\0" in text:
        return None
    edits = _blocks(text) if style == "blocks" else _hunks(text)
    return edits if edits and len(edits) <= MAX_EDITS and all(any(edit.search) for edit in edits) else None


def apply(text: str, edits: Sequence[Edit]) -> str | None:
    """Return the text after all edits, in order; None if the lines of one are not in it exactly once."""
    lines = text.split("\n")
    for edit in edits:
        size = len(edit.search)
        found = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == edit.search]
        if len(found) != 1:
            return None
        lines[found[0] : found[0] + size] = edit.replace
    return "\n".join(lines)


def texts_of(item: Item) -> tuple[str, str, Style]:
    """Return the text, the fixed text and the style of an item of edits; raise BrokenItem if it is none."""
    text, fixed, style = (item.data.get(key) for key in ("text", "fixed", "style"))
    if not (isinstance(text, str) and isinstance(fixed, str) and style in ("diff", "blocks")):
        raise BrokenItem(f"data.text, data.fixed or data.style is missing (style: {style!r:.40})")
    return text, fixed, style


def edited_similarity(item: Item, answer: str) -> float | None:
    """Return the similarity of an answer's edits to the item's fix; None if they do not parse or do not apply.

    Raises InputError for an item that has no text to be edited.
    """
    try:
        text, fixed, style = texts_of(item)
    except BrokenItem as error:
        raise InputError(f"item {item.id} is not about edits: {error}") from error
    edits = parse(answer, style)
    after = apply(text, edits) if edits else None
    return None if after is None else similarity(text, after, fixed)


def similarity(text: str, predicted: str, fixed: str) -> float:
    """Return difflib's ratio of the diffs from `text` to either text, 0 to 1; unchanged lines do not count."""
    one, other = diff(text, predicted), diff(text, fixed)
    return 1.0 if one == other else difflib.SequenceMatcher(None, other, one, autojunk=False).ratio()


def diff(before: str, after: str) -> str:
    """Return the changed lines between two texts, as a unified diff without its head and its context."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _hunks(text: str) -> list[Edit] | None:
    edits: list[Edit] = []
    old: list[str] = []
    new: list[str] = []
    for line in text.strip("\n").split("\n"):
        mark, rest = line[:1], line[1:]
        if mark not in ("-", "+"):
            return None
        if mark == "-" and new:
            edits.append(Edit(tuple(old), tuple(new)))
            old, new = [], []
        (old if mark == "-" else new).append(rest)
    return [*edits, Edit(tuple(old), tuple(new))]


def _blocks(text: str) -> list[Edit] | None:
    edits: list[Edit] = []
    parts: list[list[str]] = []  # of the open block: the lines searched for, then those that replace them
    for line in text.strip("\n").split("\n"):
        if (line == SEARCH and not parts) or (line == MIDDLE and len(parts) == 1):
            parts.append([])
        elif line == REPLACE and len(parts) == 2:
            edits.append(Edit(tuple(parts[0]), tuple(parts[1])))
            parts = []
        elif parts:
            parts[-1].append(line)
        elif line.strip():
            return None
    return None if parts else edits
