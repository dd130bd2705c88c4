"""Tagged parts of a response, such as `<think>...</think>`: found once, with the tokens that hold them.

Rewards, masks and metrics read the same spans.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated

from pydantic import Field

from components.contract.params import Params

TagName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)]
"""The name of a tag, without its brackets."""
BROKEN = "\N{REPLACEMENT CHARACTER}"
"""The text of a token that holds a part of a character alone."""


class Grammar(Params):
    """Which tags there are, and whether they must be closed."""

    tags: tuple[TagName, ...] = Field(default=("think", "answer"), min_length=1)
    """Names of the tags, `<name>` ... `</name>`."""
    closing: bool = True
    """Whether a block ends only at its closing tag; if not, also before the next opening tag and at the end."""


@dataclass(frozen=True)
class Block:
    """One tagged part of a text. Blocks do not nest: a tag inside another block is text of that block."""

    tag: str
    text: str
    """What is between the tags."""
    start: int
    """First character of the opening tag."""
    end: int
    """One past the last character, the closing tag included."""
    inside: tuple[int, int]
    """First character of the text, and one past its last."""
    closed: bool
    """Whether it has its closing tag."""
    tokens: tuple[int, int] | None = None
    """First token that holds any of its characters, tags included, and one past the last; None without tokens."""


def blocks(text: str, grammar: Grammar, pieces: Sequence[str] = ()) -> list[Block]:
    """Return the blocks of a text in order; `pieces` are the texts of its tokens, each decoded by itself.

    A tag that is opened and, where it must be, not closed makes no block.
    """
    names = "|".join(map(re.escape, grammar.tags))
    opening = re.compile(rf"<({names})>")
    found, at = [], 0
    while match := opening.search(text, at):
        block = _block(text, match, opening, grammar.closing)
        if block is not None:
            found.append(block)
        at = match.end() if block is None else block.end
    if not pieces:
        return found
    ends = token_ends(text, pieces)
    return [Block(**{**vars(block), "tokens": _tokens(block, ends)}) for block in found]


def token_ends(text: str, pieces: Sequence[str]) -> list[int]:
    """Return for each token the number of characters of `text` up to its end.

    A token that the text does not show, such as an end mark, has no width. Of a character made of several tokens, the
    last one ends it.
    """
    if "".join(pieces) == text:
        return list(accumulate(map(len, pieces)))
    ends: list[int] = []
    at = pending = 0
    for piece in pieces:
        if BROKEN in piece:
            pending += len(piece)
        elif piece and (place := text.find(piece, at, at + pending + len(piece))) >= 0:
            ends = ends[: len(ends) - pending] + [place] * pending if pending else ends
            at, pending = place + len(piece), 0
        ends.append(at)
    return [*ends[: len(ends) - pending], *[len(text)] * pending] if pending else ends


def _block(text: str, match: re.Match[str], opening: re.Pattern[str], closing: bool) -> Block | None:
    tag, start, begin = match[1], match.start(), match.end()
    close = text.find(f"</{tag}>", begin)
    following = None if closing else opening.search(text, begin)
    if close >= 0 and (following is None or close < following.start()):
        return Block(tag, text[begin:close], start, close + len(tag) + 3, (begin, close), True)
    if closing:
        return None
    end = len(text) if following is None else following.start()
    return Block(tag, text[begin:end], start, end, (begin, end), False)


def _tokens(block: Block, ends: Sequence[int]) -> tuple[int, int]:
    starts = [0, *ends[:-1]]
    held = [
        number
        for number, (begin, end) in enumerate(zip(starts, ends, strict=True))
        if begin < block.end and end > block.start
    ]
    return (held[0], held[-1] + 1) if held else (0, 0)
