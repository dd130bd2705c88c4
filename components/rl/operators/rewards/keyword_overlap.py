"""Whether the keywords of a reference occur in a response, anywhere: what a list of keywords satisfies."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import RewardConfig
from components.rl.operators.rewards.keyword_order import key_points
from components.rl.step.context import SlotContext
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class KeywordOverlapConfig(RewardConfig):
    """Where the keywords are."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    key: str = "keywords"
    """Key of the item's data: a list of key points, each a list of alternative keyword lists."""


def keyword_overlap(batch: Batch, context: SlotContext, *, config: KeywordOverlapConfig) -> Tensor:
    """Return [S]: the mean over key points of the best alternative's share of keywords that occur.

    Order and repetition do not matter: the reward that `keyword_order` is compared with.
    """
    from components.rl.batch.texts import of_texts

    def grade(item: Item, text: str) -> float:
        points = key_points(item, config.key)
        return sum(max(_share(text, words) for words in point) for point in points) / len(points)

    return of_texts(batch, grade)


def _share(text: str, words: list[str]) -> float:
    wanted = {word.casefold() for word in words}
    return len(wanted & set(keyword_hits(text, words))) / len(wanted)
