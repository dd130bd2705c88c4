"""Reading what writers wrote: tagged parts, and usable texts. All of it is hostile."""

from __future__ import annotations

from components.synthesize.sifting import REFUSED, UNFINISHED
from components.synthesize.writers import Text
from components.tasks.blocks import Grammar, blocks

UNPARSED = "unparsed"


def unusable(one: Text | None) -> str | None:
    """Return why a text cannot be read: it was refused, cut, or is empty; None if it can."""
    if one is None:
        return REFUSED
    if not one.finished:
        return UNFINISHED
    return None if one.text.strip() else UNPARSED


def tagged(text: str, *tags: str) -> dict[str, str] | None:
    """Return tag -> text of the last block of each; None if one is missing or empty. Closing tags may be left out."""
    found = {block.tag: block.text.strip() for block in blocks(text, Grammar(tags=tags, closing=False))}
    return found if all(found.get(tag) for tag in tags) else None


def body(text: str, tag: str) -> str:
    """Return the text of the last block of a tag, or the whole text where there is none."""
    found = tagged(text, tag)
    return found[tag] if found else text.strip()
