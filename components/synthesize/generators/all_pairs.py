"""All pairs of a ranking: every better response against every worse one to the same prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

TIED, ALONE = "tied", "no_contrast"


class AllPairsConfig(GeneratorConfig):
    """How responses are ranked, and which pairs of the ranking become rows."""

    kind: ClassVar[Literal["preferences"]] = "preferences"  # type: ignore[assignment]
    take: Literal["all", "ends"] = "all"
    """all: every pair of different ranks. ends: the best against the worst."""
    noise: float = Field(default=0.0, ge=0)
    """Standard deviation of what an annotator adds to a verifier's score, from 0 to 1: near ties are then often ranked
    the wrong way round, and clear pairs seldom."""
    scale: float = Field(default=1.0, gt=0)
    """`margin` is so many times the difference of the scores: a loss that reads margins has a scale of its own."""
    max_per_prompt: int | None = Field(default=None, ge=1)
    """Most pairs of a prompt, drawn at random; null keeps all."""

    @model_validator(mode="after")
    def _cap_has_pairs(self) -> AllPairsConfig:
        if self.take == "ends" and self.max_per_prompt is not None:
            raise InputError("take ends makes one pair of a prompt: leave max_per_prompt out")
        return self


def all_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: AllPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item the pairs of its distinct responses with different scores, `margin` by how much they differ.

    Source: MM-RLHF (arXiv:2502.10391), section 4: all pairs of a ranking, not the best and the worst alone. With
    `noise` the scores, the ranking and the margins are the annotator's. A pair counts as one text in the card.
    """
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        yield from _of_item(item, found, context, config)


def _of_item(
    item: Item, found: Sequence[Judged], context: GeneratorContext, config: AllPairsConfig
) -> Iterator[Made | Dropped]:
    rng = context.rng("noise", item.id)
    kept, reasons = distinct_judged(found)
    yield from map(Dropped, reasons)
    scored = [(one.score + (rng.gauss(0, config.noise) if config.noise else 0.0), one) for one in kept]
    ranked = sorted(scored, key=lambda one: -one[0])
    pairs = [pair for pair in combinations(ranked, 2) if pair[0][0] > pair[1][0]]
    if not pairs:
        yield from [Dropped(TIED if len(scored) > 1 else ALONE)] * len(scored)
    if config.take == "ends":
        chosen = [(ranked[0], ranked[-1])] if pairs else []
        yield from [Dropped(OVER_CAP)] * (len(pairs) - len(chosen))
    else:
        most = len(pairs) if config.max_per_prompt is None else min(len(pairs), config.max_per_prompt)
        kept = set(rng.sample(range(len(pairs)), most))
        chosen = [pair for number, pair in enumerate(pairs) if number in kept]
        yield from [Dropped(OVER_CAP)] * (len(pairs) - most)
    labelled_by = f"{item.verifier} with noise {config.noise:g}" if config.noise else item.verifier
    for (high, better), (low, worse) in chosen:
        pair = {CHOSEN: better.text, REJECTED: worse.text, MARGIN: config.scale * (high - low)}
        yield Made(item, None, {"quality": better.writer, LABEL_SOURCE: labelled_by, **pair})
