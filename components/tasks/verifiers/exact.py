"""Exact match after normalisation: short answers in words."""

from __future__ import annotations

import re
import unicodedata

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

ARTICLES = re.compile(r"\b(a|an|the)\b")
WHITE_SPACE = re.compile(r"\s+")


class ExactConfig(Params):
    """What counts as the same text."""

    case: bool = False
    """Whether upper and lower case differ."""
    punctuation: bool = True
    """Whether punctuation at the two ends of the answer counts."""
    articles: bool = True
    """Whether a, an and the count."""


def exact(item: Item, response: str, *, config: ExactConfig) -> Verdict:
    """Judge by equality of normalised text. Unicode is compared in form NFKC and white space runs are one space.

    `data["aliases"]` may list further right answers. An empty reference is a broken item.
    """
    accepted = {normalise(text, config) for text in (item.answer, *_aliases(item))}
    if "" in accepted:
        raise BrokenItem("an accepted answer is empty after normalisation")
    given = normalise(extract_answer(response), config)
    return RIGHT if given in accepted else wrong(f"answered {given!r}")


def normalise(text: str, config: ExactConfig) -> str:
    """Return `text` with all differences that do not count removed."""
    text = unicodedata.normalize("NFKC", text)
    if not config.case:
        text = text.casefold()
    if not config.punctuation:
        text = _strip_punctuation(text)
    if not config.articles:
        text = ARTICLES.sub(" ", text)
    return WHITE_SPACE.sub(" ", text).strip()


def _strip_punctuation(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _is_edge(text[start]):
        start += 1
    while end > start and _is_edge(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_edge(character: str) -> bool:
    return character.isspace() or unicodedata.category(character).startswith("P")


def _aliases(item: Item) -> list[str]:
    aliases = item.data.get("aliases", [])
    if not (isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)):
        raise BrokenItem(f"data.aliases is no list of texts: {aliases!r}")
    return aliases
