"""N-gram overlap of an answer with its reference, such as a translation's."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.ngram_overlap import Overlap

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class NgramOverlapConfig(RewardConfig):
    """Which n-grams are compared."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    overlap: Overlap = Overlap()
    """Largest n, and words or characters."""


def ngram_overlap(batch: Batch, context: SlotContext, *, config: NgramOverlapConfig) -> Tensor:
    """Return [S] in [0, 1]: sentence BLEU of the answer that a response gives with its item's answer.

    Source: MT-R1-Zero (arXiv:2504.10160), section 3: the lexical metric reward, BLEU against the reference.
    """
    from components.rl.batch.texts import of_texts
    from components.tasks.answers import extract_answer

    return of_texts(batch, lambda item, text: config.overlap.of(extract_answer(text), item.answer))
