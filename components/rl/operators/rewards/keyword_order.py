"""Whether the keywords of a reference occur in a response, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits, ordered_coverage

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class KeywordOrderConfig(RewardConfig):
    """Where the keywords are."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    key: str = "keywords"
    """Key of the item's data: a list of key points, each a list of alternative keyword lists."""


def keyword_order(batch: Batch, context: SlotContext, *, config: KeywordOrderConfig) -> Tensor:
    """Return [S]: the mean over key points of the best alternative's LCS(hits, reference hits) / the longer of both.

    Hits are the keywords in the order in which they occur, in the response and in the reference answer.
    Source: Jiang et al. 2026, RLVRR, content reward of the released code (YJiangcm/RLVRR): the longer list as the
    divisor punishes keyword stuffing.
    """
    from components.rl.batch.texts import of_texts

    def grade(item: Item, text: str) -> float:
        points = key_points(item, config.key)
        return sum(max(_coverage(item, text, words) for words in point) for point in points) / len(points)

    return of_texts(batch, grade)


def _coverage(item: Item, text: str, words: list[str]) -> float:
    return ordered_coverage(keyword_hits(text, words), keyword_hits(item.answer, words))


def key_points(item: Item, key: str) -> list[list[list[str]]]:
    """Return an item's key points, each a list of alternative keyword lists; raises InputError without them."""
    points: Any = item.data.get(key)
    if not (_lists(points) and all(_lists(point) and all(map(_words, point)) for point in points)):
        raise InputError(
            f"rewards of keywords: data.{key} of {item.id} is no list of key points, each a list of keyword lists"
        )
    return list(points)


def _lists(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, list) for each in value)


def _words(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(word, str) for word in value)
