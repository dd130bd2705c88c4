"""Pairs as people label them: two responses to each prompt, and the more often preferred the better the one is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, REJECTED

NO_CONTRAST = "no_contrast"
ANNOTATOR = "annotator"
FLIPPED = "flipped"
"""Column of a pair: whether its worse response was preferred. Nothing learns from it."""


class AnnotatedPairsConfig(GeneratorConfig):
    """How sure the annotators are."""

    kind: ClassVar[Literal["preferences"]] = "preferences"  # type: ignore[assignment]
    noise: float = Field(default=0.25, ge=0)
    """Gap of the verifier's scores, from 0 to 1, at which the better response is preferred with odds of e to 1; at 0
    it always is."""


def annotated_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: AnnotatedPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield a pair of each item's first two distinct responses, labelled by a simulated annotator.

    The first is preferred with probability sigmoid((s_1 - s_2) / noise), s the score of the item's verifier: wrong
    labels are those of small gaps. Of equal scores without noise there is no pair. The scores are in no column.

    Sources: Bradley and Terry 1952; Dubois et al. 2023, AlpacaFarm (arXiv:2305.14387), section 3: simulated annotators
    disagree; Gao et al. 2022 (arXiv:2210.10760): labels from a gold score.
    """
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        yield from _of_item(item, found, context, config)


def _of_item(
    item: Item, found: Sequence[Judged], context: GeneratorContext, config: AnnotatedPairsConfig
) -> Iterator[Made | Dropped]:
    kept, reasons = distinct_judged(found)
    yield from map(Dropped, reasons)
    if len(kept) < 2:
        yield from [Dropped(NO_CONTRAST)] * len(kept)
        return
    first, second, *others = kept
    yield from [Dropped(OVER_CAP)] * len(others)
    gap = first.score - second.score
    if gap == 0 and config.noise == 0:
        yield from [Dropped(NO_CONTRAST)] * 2
        return
    prefers_first = context.rng(ANNOTATOR, item.id).random() < preference(gap, config.noise)
    chosen, rejected = (first, second) if prefers_first else (second, first)
    pair = {CHOSEN: chosen.text, REJECTED: rejected.text, LABEL_SOURCE: ANNOTATOR}
    yield Made(item, None, {"quality": chosen.writer, **pair, FLIPPED: chosen.score < rejected.score})


def preference(gap: float, noise: float) -> float:
    """Return the probability of preferring the first response, of a gap of scores from -1 to 1."""
    if noise == 0:
        return float(gap > 0)
    odds = max(-700.0, min(700.0, gap / noise))  # exp stays finite
    return 1 / (1 + math.exp(-odds))
