"""Pairs of the best and the worst response by a reward model: labels of online preference learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from components.contract.errors import InputError
from components.contract.heads import SCORES, Head
from components.modeling.serving.models import Asked, Rater
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP
from components.synthesize.writers import Text, Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_CONTRAST, UNSCORED = "no_contrast", "unscored"


class BestVsWorstRewardConfig(GeneratorConfig):
    """Which two responses become a pair."""

    kind: ClassVar[Literal["preferences"]] = "preferences"  # type: ignore[assignment]
    scorers: ClassVar[bool] = True
    asks_heads: ClassVar[frozenset[Head]] = SCORES
    labelled: ClassVar[bool] = False
    min_gap: float = Field(default=0.0, ge=0)
    """Smallest gap of the rewards of the two, less the price for length; at 0 equal rewards alone give no pair. Rewards
    of pairs have no scale of their own: 1 is odds of e to 1."""
    length_penalty: float = Field(default=0.0, ge=0)
    """Taken off the reward for each character of a response."""


def best_vs_worst_reward(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: BestVsWorstRewardConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item a row of its best and its worst response, by the mean reward of the models at `scorers`.

    Answers are not read. Column `margin` is the gap of the rewards less that price; of equal responses the first drawn
    counts. A response that no model could score is left out; a pair counts as one text in the card.

    Source: Dong et al. 2024, RLHF Workflow (arXiv:2405.07863), section 4: best against worst of n samples, with the
    reward less a price for length.
    """
    written = writers.write(items, context.drawing(config, "draw"))
    kept = []
    for texts in written:
        own, reasons = distinct(texts)
        yield from map(Dropped, reasons)
        kept.append(own)
    pairs = [(item.task, one.text) for item, own in zip(items, kept, strict=True) for one in own]
    rewards = iter(_rewards(writers, pairs))
    for item, own in zip(items, kept, strict=True):
        yield from _of_item(item, [(next(rewards), one) for one in own], writers.scorers[0].name, config)


def _rewards(writers: Writers, pairs: Sequence[tuple[Asked, str]]) -> list[float | None]:
    """Return the mean reward of each pair over all scorers; None where one of them cannot score it."""
    told = []
    for scorer in writers.scorers:
        if not isinstance(scorer, Rater):
            raise InputError(f"generator best_vs_worst_reward: {scorer.name} is an endpoint, which gives no rewards")
        told.append(scorer.rate(pairs))
    return [None if None in here else sum(here) / len(here) for here in zip(*told, strict=True)]


def _of_item(
    item: Item, rated: Sequence[tuple[float | None, Text]], scorer: str, config: BestVsWorstRewardConfig
) -> Iterator[Made | Dropped]:
    known = [(reward - config.length_penalty * len(one.text), one) for reward, one in rated if reward is not None]
    yield from [Dropped(UNSCORED)] * (len(rated) - len(known))
    if not known:
        return
    best, worst = max(known, key=lambda one: one[0]), min(known, key=lambda one: one[0])
    gap = best[0] - worst[0]
    if gap <= 0 or gap < config.min_gap:
        yield from [Dropped(NO_CONTRAST)] * len(known)
        return
    yield from [Dropped(OVER_CAP)] * (len(known) - 2)
    pair = {CHOSEN: best[1].text, REJECTED: worst[1].text, MARGIN: gap, LABEL_SOURCE: scorer}
    yield Made(item, None, {"quality": best[1].writer, **pair})
