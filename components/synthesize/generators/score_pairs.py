"""Pairs of candidates by what their tests say, or, as a control, by how likely the writer finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.operators import OperatorSpec
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED
from components.tasks.slots import VERIFIER

NO_CONTRAST, UNSCORED = "no_contrast", "unscored"
LIKELIHOOD = "likelihood"


class ScorePairsConfig(GeneratorConfig):
    """Which two candidates become a pair."""

    kind: ClassVar[Literal["preferences"]] = "preferences"  # type: ignore[assignment]
    by: Literal["tests", "likelihood"] = "tests"
    """tests: the score of the item's verifier. likelihood: nats a token under the model at `scorers`; no test is
    read, and `min_gap` and `prefer_running` have no meaning."""
    verifier: Annotated[OperatorSpec, VERIFIER] | None = None
    """Who scores candidates in the place of the item's verifier, such as `bench_points`; it sees the item's data."""
    min_gap: float = Field(default=0.3, gt=0, le=1)
    """Smallest gap of the scores, from 0 to 1."""
    max_similarity: float = Field(default=0.95, gt=0, le=1)
    """Highest similarity of the two texts, 2 M / T of difflib (M characters in common, of T): what is more alike is a
    near copy."""
    prefer_running: bool = True
    """Whether a rejected candidate that runs and fails goes before one that does not run at all."""

    @model_validator(mode="after")
    def _known(self) -> ScorePairsConfig:
        if self.verifier is not None:
            self.verifier.resolve()
        return self

    @property
    def scorers(self) -> bool:  # type: ignore[override]
        """Return whether a model is asked how likely candidates are."""
        return self.by == LIKELIHOOD


def score_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: ScorePairsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item its best candidate against a worse one: the lowest score among those that may stand there.

    Candidates that tie, and near copies of the best, give no pair; a pair counts as one text in the card. Source:
    VeriPrefer (arXiv:2504.15804): the highest score against a lower one with a clear gap; rejected ones that compile
    and fail are preferred. Reconstructed: the gap, the likeness, and that one pair is made of an item.
    """
    drawn = judged(_scored(items, config), writers.write(items, context.drawing(config, "draw")))
    kept = []
    for found in drawn:
        own, reasons = distinct_judged(found)
        yield from map(Dropped, reasons)
        kept.append(own)
    values = iter(_values(items, kept, writers, config))
    for item, own in zip(items, kept, strict=True):
        scored = [(value, one) for one in own if (value := next(values)) is not None]
        yield from [Dropped(UNSCORED)] * (len(own) - len(scored))
        if scored:
            yield from _of_item(item, scored, config)


def _scored(items: Sequence[Item], config: ScorePairsConfig) -> list[Item]:
    """Return the items as they are scored: by the config's verifier, with its settings, where it names one."""
    if config.verifier is None:
        return list(items)
    name, settings = config.verifier.name, config.verifier.settings
    told = {"settings": settings} if settings else {}
    return [item.model_copy(update={"verifier": name, "data": {**item.data, **told}}) for item in items]


def _values(
    items: Sequence[Item], kept: Sequence[Sequence[Judged]], writers: Writers, config: ScorePairsConfig
) -> list[float | None]:
    """Return what each candidate is ranked by, in order."""
    if config.by == LIKELIHOOD:
        pairs = [(item.prompt, one.text) for item, own in zip(items, kept, strict=True) for one in own]
        return [None if one is None else one.mean for one in writers.scorers[0].score(pairs)]
    return [one.score for own in kept for one in own]


def _of_item(item: Item, scored: Sequence[tuple[float, Judged]], config: ScorePairsConfig) -> Iterator[Made | Dropped]:
    by_tests = config.by == "tests"
    best = max(scored, key=lambda one: one[0])
    least = config.min_gap if by_tests else 0.0
    others = [
        one
        for one in scored
        if one[0] < best[0]
        and best[0] - one[0] >= least
        and _similarity(best[1].text, one[1].text) <= config.max_similarity
    ]
    if not others:
        yield from [Dropped(NO_CONTRAST)] * len(scored)
        return
    yield from [Dropped(OVER_CAP)] * (len(scored) - 2)
    first = by_tests and config.prefer_running
    worst = min(others, key=lambda one: (first and not _runs(one[1]), one[0]))
    scorer = config.verifier.name if config.verifier else item.verifier
    source = scorer if by_tests else LIKELIHOOD
    pair = {CHOSEN: best[1].text, REJECTED: worst[1].text, MARGIN: best[0] - worst[0], LABEL_SOURCE: source}
    yield Made(item, None, {"quality": best[1].writer, **pair})


def _runs(one: Judged) -> bool:
    return one.verdict is not None and (one.verdict.right or one.verdict.graded is not None)


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
