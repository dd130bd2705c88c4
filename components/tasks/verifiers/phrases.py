"""Which phrases a response contains, and which it must not."""

from __future__ import annotations

from typing import Any, Literal

from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class PhrasesConfig(Params):
    """What is asked of the phrases."""

    need: Literal["all", "any", "none"] = "all"
    """all: the score is the share of them that occur. any: one is enough. none: a single one is wrong."""
    key: str = "phrases"
    """Key of the item's data that lists them."""


def phrases(item: Item, response: str, *, config: PhrasesConfig) -> Verdict:
    """Judge by the phrases in `data[key]`: whole words, without case, anywhere in the response."""
    wanted: Any = item.data.get(config.key)
    if not (isinstance(wanted, list) and wanted and all(isinstance(phrase, str) and phrase for phrase in wanted)):
        raise BrokenItem(f"data.{config.key} is no list of texts: {wanted!r:.80}")
    known = {phrase.casefold() for phrase in wanted}
    found = {phrase for phrase in known if keyword_hits(response, [phrase])}
    if config.need == "none":
        return wrong(f"contains {min(found)!r}") if found else RIGHT
    if found == known or (found and config.need == "any"):
        return RIGHT
    return wrong(f"lacks {min(known - found)!r}", graded=len(found) / len(known) if config.need == "all" else 0.0)
