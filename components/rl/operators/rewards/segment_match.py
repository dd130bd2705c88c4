"""Whether a written segment is the true continuation of a text (RLPT)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer
from components.tasks.item import Item

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class SegmentMatchConfig(RewardConfig):
    """How much of a segment must agree."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    f1: float = Field(default=0.8, gt=0, le=1)
    """Lowest F1 score of words against the true segment at which a prediction counts."""
    prefix: bool = True
    """Whether a prediction that covers several true segments from the first on, or begins one of them, counts too."""
    min_words: int = Field(default=1, ge=1)
    """Words that such a beginning has at least."""


def segment_match(batch: Batch, context: SlotContext, *, config: SegmentMatchConfig) -> Tensor:
    """Return [S]: 1 where the final answer matches the true segment, or is a prefix of it and those after it, else 0.

    The true segment is the item's answer, and `data["following"]` lists it with those after it, as source `segments`
    does. Words are compared without case. Source: Li et al. 2025, Reinforcement Learning on Pre-Training Data (RLPT),
    where a judge says whether a prediction is a valid prefix of what follows. Reconstructed: words and F1 in its place.
    """
    from components.rl.batch.texts import of_texts

    return of_texts(batch, lambda item, text: float(matches(item, extract_answer(text), config)))


def matches(item: Item, predicted: str, config: SegmentMatchConfig) -> bool:
    """Return whether a prediction counts as the item's segment."""
    given, wanted = predicted.casefold().split(), item.answer.casefold().split()
    if word_f1(given, wanted) >= config.f1:
        return True
    found: Any = item.data.get("following")
    following = " ".join(map(str, found)) if isinstance(found, list) and found else item.answer
    whole = following.casefold().split()
    return config.prefix and len(given) >= config.min_words and given == whole[: len(given)]


def word_f1(given: list[str], wanted: list[str]) -> float:
    """Return the F1 score of two bags of words; 0 if one is empty."""
    both = (Counter(given) & Counter(wanted)).total()
    return 2 * both / (len(given) + len(wanted)) if given and wanted else 0.0
