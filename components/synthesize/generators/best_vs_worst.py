"""Pairs of a better and a worse response of the writers: what preference optimisation and reward models learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, REPEATED, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_CONTRAST = "no_contrast"


class BestVsWorstConfig(GeneratorConfig):
    """Which two responses become a pair."""

    kind: ClassVar[Literal["preferences"]] = "preferences"
    min_gap: float = Field(default=0.5, gt=0, le=1)
    """Smallest gap of the scores, from 0 to 1, that the verifier gives the two; a right and a wrong response differ by
    1."""
    prefer: Literal["first", "shortest"] = "first"
    """Which of the best responses is chosen: the first drawn, or the one with the fewest characters."""


def best_vs_worst(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: BestVsWorstConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item a row of its best and its worst response, by the scores of the item's verifier.

    Dong et al. 2024 (arXiv:2405.07863), section 4: best against worst of n samples. Items whose responses differ by
    less than `min_gap` give none; a pair counts as one text in the card.
    """
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        yield from _of_item(item, found, config)


def _of_item(item: Item, found: Sequence[Judged], config: BestVsWorstConfig) -> Iterator[Made | Dropped]:
    scored: dict[str, tuple[float, Judged]] = {}
    for one in found:
        if one.verdict is None or one.verdict.failed:
            yield Dropped(one.dropped or "")
        elif one.text in scored or not one.text.strip():
            yield Dropped(REPEATED)
        else:
            scored[one.text] = one.verdict.score, one
    if not scored:
        return
    best, worst = _ends(list(scored.values()), config)
    if best[0] - worst[0] < config.min_gap:
        yield from [Dropped(NO_CONTRAST)] * len(scored)
        return
    yield from [Dropped(OVER_CAP)] * (len(scored) - 2)
    pair = {CHOSEN: best[1].text, REJECTED: worst[1].text, MARGIN: best[0] - worst[0], LABEL_SOURCE: item.verifier}
    yield Made(item, None, {"quality": best[1].writer, **pair})


def _ends(scored: Sequence[tuple[float, Judged]], config: BestVsWorstConfig) -> tuple[tuple[float, Judged], ...]:
    """Return the best and the worst response; of equal ones the first, or the shortest of the best."""
    by_length = config.prefer == "shortest"
    best = min(scored, key=lambda one: (-one[0], len(one[1].text) if by_length else 0))
    return best, min(scored, key=lambda one: one[0])
