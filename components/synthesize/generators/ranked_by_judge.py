"""Responses as judges rank them, where no verifier can say which is right: the best alone, or beside the worst."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from components.judges.config import ListwiseConfig
from components.judges.judge import Case, ListwiseJudge
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.judging import JudgeModel
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP
from components.synthesize.writers import Text, Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

UNJUDGED, NO_CONTRAST = "unjudged", "no_contrast"


class RankedByJudgeConfig(GeneratorConfig):
    """How the judges are asked, and what is made of a ranking."""

    judges: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    """What a judge prefers is no answer that a verifier accepts."""

    judge: ListwiseConfig = ListwiseConfig()
    """How each judge is asked for a ranking, once for each rotation of the responses."""
    rows: Literal["pairs", "best"] = "pairs"
    """pairs: the best and the worst response as `chosen` and `rejected`. best: demonstrations of the best."""
    max_ranked: int = Field(default=8, ge=2, le=64)
    """Most distinct responses of an item that are ranked, the first drawn: n responses are n requests of n texts."""
    min_gap: float = Field(default=0.5, gt=0, le=1)
    """Smallest gap between the best and the worst response of an item, each the mean share of others ranked behind it.
    A judge that takes what is shown first leaves none: over all rotations its shares are equal."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return preferences, or demonstrations."""
        return "preferences" if self.rows == "pairs" else "demonstrations"


def ranked_by_judge(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RankedByJudgeConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item its best response by the judges' rankings, perhaps with its worst.

    A response's share is the mean over judges, and over all rotations of the order shown, of the others ranked behind
    it. An item is dropped as a whole where any ranking cannot be read. Its verifier is not asked.

    Source: Sun et al. 2023 (arXiv:2304.09542), which ask for a permutation of all texts; Yuan et al. 2024
    (arXiv:2401.10020), who make a pair of the best and the worst of n by a judge.
    """
    texts = writers.write(items, context.drawing(config, "draw"))
    kept = []
    for found in texts:
        usable, reasons = distinct(found, config.max_ranked)
        yield from map(Dropped, reasons)
        kept.append(usable)
    ranked = [at for at, found in enumerate(kept) if len(found) > 1]
    lists = [(Case(items[at].prompt, items[at].answer), [one.text for one in kept[at]]) for at in ranked]
    shares = dict(zip(ranked, _shares(lists, writers, context, config), strict=True))
    for at, item in enumerate(items):
        yield from _of_item(item, kept[at], shares.get(at), config, [judge.name for judge in writers.judges])


def _shares(
    lists: Sequence[tuple[Case, Sequence[str]]],
    writers: Writers,
    context: GeneratorContext,
    config: RankedByJudgeConfig,
) -> list[list[float] | None]:
    """Return the share of each response of each list, the mean over judges; None where a ranking cannot be read."""
    seed = context.drawing(config, "rank").seed
    said = [ListwiseJudge(JudgeModel(one), config.judge, seed=seed).judge_all(lists) for one in writers.judges]
    found: list[list[float] | None] = []
    for rankings in zip(*said, strict=True):
        values = [[one.value for one in ranking if one.value is not None] for ranking in rankings]
        whole = all(len(few) == len(ranking) for few, ranking in zip(values, rankings, strict=True))
        found.append([math.fsum(each) / len(each) for each in zip(*values, strict=True)] if whole else None)
    return found


def _of_item(
    item: Item, found: Sequence[Text], shares: Sequence[float] | None, config: RankedByJudgeConfig, judges: list[str]
) -> Iterator[Made | Dropped]:
    if len(found) < 2:
        yield from [Dropped(NO_CONTRAST)] * len(found)
        return
    if shares is None:
        yield from [Dropped(UNJUDGED)] * len(found)
        return
    best, worst = (shares.index(end) for end in (max(shares), min(shares)))
    gap = shares[best] - shares[worst]
    if gap < config.min_gap:
        yield from [Dropped(NO_CONTRAST)] * len(found)
        return
    label = {LABEL_SOURCE: ", ".join(judges), "quality": found[best].writer}
    if config.rows == "best":
        yield from [Dropped(OVER_CAP)] * (len(found) - 1)
        yield Made(item, found[best].text, label)
        return
    yield from [Dropped(OVER_CAP)] * (len(found) - 2)
    pair = {CHOSEN: found[best].text, REJECTED: found[worst].text, MARGIN: gap}
    yield Made(item, None, {**pair, **label})
