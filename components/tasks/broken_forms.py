"""Texts of tagged parts with their form broken and their content kept: what a preference for form rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from components.tasks.blocks import Block, Grammar, blocks

Form = Literal["no_thought", "unmarked_first", "unmarked_last", "swapped", "repeated", "rewrapped", "unclosed"]
FORMS: tuple[Form, ...] = (
    "no_thought",
    "unmarked_first",
    "unmarked_last",
    "swapped",
    "repeated",
    "rewrapped",
    "unclosed",
)
WRAPPER = "#### "
"""What marks an answer elsewhere, as in GSM8K."""


def parts_of(text: str, grammar: Grammar) -> list[Block] | None:
    """Return the blocks of a well-formed text, None for any other.

    Well-formed: every tag once, in the grammar's order, none of them empty, nothing but white space outside, and no
    further opening or closing tag inside a block.
    """
    found = blocks(text, grammar)
    if tuple(block.tag for block in found) != grammar.tags or not all(block.text.strip() for block in found):
        return None
    if any(text.count(f"<{tag}>") != 1 or text.count(f"</{tag}>") > 1 for tag in grammar.tags):
        return None
    marks = sum(text.count(f"</{tag}>") for tag in grammar.tags)
    if marks != sum(block.closed for block in found):
        return None
    ends = [0, *(block.end for block in found)]
    starts = [*(block.start for block in found), len(text)]
    outside = (text[end:start] for end, start in zip(ends, starts, strict=True))
    return None if any(part.strip() for part in outside) else found


def broken_forms(text: str, grammar: Grammar) -> dict[Form, str]:
    """Return the broken forms of a well-formed text by name, in the order of `FORMS`; none for any other text.

    no_thought: the last block alone. unmarked_first, unmarked_last: the tags of that block are gone, its text is not.
    swapped: the blocks in reverse order. repeated: the last block twice. rewrapped: the last block behind another
    mark. unclosed: without closing tags. A form that is still well-formed, or changes nothing, is left out.
    """
    found = parts_of(text, grammar)
    if found is None:
        return {}
    broken = _broken(found, text, closing=grammar.closing)
    return {name: broken[name] for name in FORMS if name in broken and parts_of(broken[name], grammar) is None}


def _broken(found: Sequence[Block], text: str, *, closing: bool) -> Mapping[Form, str]:
    whole = [text[block.start : block.end] for block in found]
    first, last = found[0].text.strip(), found[-1].text.strip()
    forms: dict[Form, str] = {
        "unmarked_last": "".join(whole[:-1]) + "\n" + last,
        "repeated": "".join(whole) + whole[-1],
        "rewrapped": "".join(whole[:-1]) + "\n" + WRAPPER + last,
    }
    if len(found) > 1:
        forms |= {
            "no_thought": whole[-1],
            "unmarked_first": first + "\n" + "".join(whole[1:]),
            "swapped": "".join(reversed(whole)),
        }
    if closing:
        forms["unclosed"] = "".join(text[block.start : block.inside[1]] for block in found)
    return forms
