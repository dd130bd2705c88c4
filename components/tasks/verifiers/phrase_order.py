"""Whether the phrases of a response come in the listed order, or none of them twice; that all occur is not asked."""

from __future__ import annotations

from typing import Any, Literal

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits, longest_common_subsequence
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class PhraseOrderConfig(Params):
    """What is asked of the phrases that occur."""

    need: Literal["order", "once"] = "order"
    """order: where each occurs first, they are in the order of the list; the score is the share that can stay. once:
    none occurs again; the score is the share of occurrences that are first ones."""
    key: str = "phrases"
    """Key of the item's data that lists them."""


def phrase_order(item: Item, response: str, *, config: PhraseOrderConfig) -> Verdict:
    """Judge by the phrases of `data[key]` in the final answer: whole words, without case.

    Phrases that are missing break nothing: verifier `phrases` asks for them.
    """
    wanted: Any = item.data.get(config.key)
    if not (isinstance(wanted, list) and wanted and all(isinstance(phrase, str) and phrase for phrase in wanted)):
        raise BrokenItem(f"data.{config.key} is no list of texts: {wanted!r:.80}")
    listed = [phrase.casefold() for phrase in wanted]
    if len(set(listed)) < len(listed):
        raise BrokenItem(f"data.{config.key} lists a phrase twice: {wanted!r:.80}")
    hits = keyword_hits(extract_answer(response), listed)
    first = list(dict.fromkeys(hits))
    if config.need == "once":
        again = len(hits) - len(first)
        return wrong(f"{again} repeated", graded=len(first) / len(hits)) if again else RIGHT
    kept = longest_common_subsequence(first, listed)
    if kept == len(first):
        return RIGHT
    return wrong(f"{len(first) - kept} of {len(first)} out of order", graded=kept / len(first))
