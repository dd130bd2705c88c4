"""Whether the answer names the right things, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ExactSetConfig(RewardConfig):
    """How things are separated and compared."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    separator: str = Field(default=",", min_length=1)
    """Text between two things."""
    score: Literal["exact", "f1", "jaccard"] = "exact"
    """exact: 1 for equal sets, else 0. f1, jaccard: a share of agreement."""


def exact_set(batch: Batch, context: SlotContext, *, config: ExactSetConfig) -> Tensor:
    """Return [S]: how well the set of things in the final answer agrees with that in the reference.

    Things are compared without case and outer white space; empty ones are left out, repeated ones count once.
    """
    from components.rl.batch.texts import of_texts

    def things(text: str) -> set[str]:
        return {thing.strip().casefold() for thing in text.split(config.separator)} - {""}

    def grade(expected: str, text: str) -> float:
        given, wanted = things(extract_answer(text)), things(expected)
        if config.score == "exact":
            return float(given == wanted)
        both = len(given & wanted)
        whole = len(given | wanted) if config.score == "jaccard" else (len(given) + len(wanted)) / 2
        return both / whole if whole else 1.0

    return of_texts(batch, lambda item, text: grade(item.answer, text))
