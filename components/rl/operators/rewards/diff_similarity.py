"""How similar a text, such as a patch, is to the reference."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer
from components.tasks.blocks import Grammar, TagName, blocks
from components.tasks.domains.edits import edited_similarity
from components.tasks.item import Item

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class DiffSimilarityConfig(RewardConfig):
    """Which part of the response is compared."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    tag: TagName | None = None
    """Tag of the part that is compared, the last one; none: the final answer."""
    malformed: float = -1.0
    """Reward of a response without that part."""
    max_chars: int = Field(default=20_000, ge=1)
    """Longest text that is compared, in characters; a longer one counts as malformed: time grows with the square."""
    edits: bool = False
    """Whether the part holds edits of the item's `data.text`, in its `data.style`: the diff that they make is compared
    with the diff to `data.fixed`. Edits that do not parse, or whose lines are not in the text once, are malformed."""


def diff_similarity(batch: Batch, context: SlotContext, *, config: DiffSimilarityConfig) -> Tensor:
    """Return [S]: 2 M / T, with M characters in matching blocks of T in both texts; `malformed` without the part.

    Source: Wei et al. 2025, SWE-RL (arXiv:2502.18449), eq. 1: difflib's ratio of predicted and reference patch, -1 for
    a wrong format.
    """
    from components.rl.batch.texts import of_texts

    def grade(item: Item, text: str) -> float:
        part = _part(text, config)
        if part is None or len(part) > config.max_chars:
            return config.malformed
        if config.edits:
            found = edited_similarity(item, part)
            return config.malformed if found is None else found
        return difflib.SequenceMatcher(None, item.answer.strip(), part.strip(), autojunk=False).ratio()

    return of_texts(batch, grade)


def _part(text: str, config: DiffSimilarityConfig) -> str | None:
    if config.tag is None:
        return extract_answer(text)
    found = blocks(text, Grammar(tags=(config.tag,)))
    return found[-1].text if found else None
