"""Pairs, or responses to learn, by what judges say that responses of several writers are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.made import Dropped, Made
from components.synthesize.ratings import mean_rating, rating_request
from components.synthesize.sifting import OVER_CAP
from components.synthesize.templates import check_template
from components.synthesize.writers import Text, Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_CONTRAST, UNRATED, POOR = "no_contrast", "unrated", "poor"


class RatedPairsConfig(GeneratorConfig):
    """What is asked of the judges, and what becomes of their ratings."""

    judges: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    rows: Literal["pairs", "best"] = "pairs"
    """pairs: the best response and a worse one. best: the best one, to be learnt."""
    rejected: Literal["random", "lowest"] = "random"
    """Which of the worse responses stands in a pair."""
    min_rating: float | None = None
    """Least rating of the best response; null takes any."""
    low: int = Field(default=1, ge=0)
    """Lowest rating that a judge may give."""
    high: int = Field(default=5, le=9999)
    """Highest rating; `question` says so, too."""
    question: str = (
        "{prompt}\nA response: {response}\nHow good is it, from 1 to 5? Say why, then <answer> and the number alone."
    )
    """Asked of each judge about each response; {prompt} and {response} are replaced."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return preferences, or demonstrations for the best responses."""
        return "preferences" if self.rows == "pairs" else "demonstrations"  # type: ignore[return-value]

    @model_validator(mode="after")
    def _is_whole(self) -> RatedPairsConfig:
        check_template("question", self.question, needs=("prompt", "response"))
        if self.low >= self.high:
            raise InputError(f"low {self.low} is not below high {self.high}: ratings would tell nothing")
        if self.min_rating is not None and self.min_rating > self.high:
            raise InputError(f"min_rating {self.min_rating:g} is above high {self.high}: no response would be kept")
        if (self.low, self.high) != (1, 5) and "question" not in self.model_fields_set:
            raise InputError(
                f"question asks for 1 to 5, and ratings go from {self.low} to {self.high}: give a question"
            )
        return self


@dataclass(frozen=True)
class Rated:
    """A response with the mean of its ratings."""

    text: Text
    rating: float


def rated_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RatedPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item the best of its writers' responses against a worse one, by the mean rating of the judges.

    Ratings are whole numbers from `low` to `high`, the final answer of what a judge writes: a response that holds a
    mark is only quoted, and control marks in it are broken. Responses that no judge rates are left out, and of pairs so
    are items whose responses are all rated alike. Column `margin` is the gap of the ratings. A pair counts as one text.

    Source: Weyssow et al. 2024, CodeUltraFeedback (arXiv:2403.09032), section 3: four responses of different models,
    rated 1 to 5 under a rubric for the item's preference; the best against one of lower rating, ties dropped.
    """
    written = writers.write(items, context.drawing(config, "draw"))
    kept = []
    for texts in written:
        own, reasons = distinct(texts)
        yield from map(Dropped, reasons)
        kept.append(own)
    asked = [
        rating_request(item, number, config.question, one.text, writers)
        for item, own in zip(items, kept, strict=True)
        for number, one in enumerate(own)
    ]
    answers = iter(writers.write(asked, context.drawing(config, "rate", num_samples=1), judges=True))
    judge = writers.judges[0].name
    for item, own in zip(items, kept, strict=True):
        rated = [
            Rated(one, rating)
            for one in own
            if (rating := mean_rating(next(answers), config.low, config.high)) is not None
        ]
        yield from [Dropped(UNRATED)] * (len(own) - len(rated))
        yield from _of_item(item, rated, judge, context, config)


def _of_item(
    item: Item, rated: Sequence[Rated], judge: str, context: GeneratorContext, config: RatedPairsConfig
) -> Iterator[Made | Dropped]:
    if not rated:
        return
    best = max(rated, key=lambda one: one.rating)
    worse = [one for one in rated if one.rating < best.rating]
    if config.min_rating is not None and best.rating < config.min_rating:
        yield from [Dropped(POOR)] * len(rated)
    elif config.rows == "best":
        yield from [Dropped(OVER_CAP)] * (len(rated) - 1)
        yield Made(item, best.text.text, {"quality": best.text.writer, "rating": best.rating})
    elif not worse:
        yield from [Dropped(NO_CONTRAST)] * len(rated)
    else:
        yield from [Dropped(OVER_CAP)] * (len(rated) - 2)
        lowest = min(worse, key=lambda one: one.rating)
        other = context.rng("rejected", item.id).choice(worse) if config.rejected == "random" else lowest
        pair = {CHOSEN: best.text.text, REJECTED: other.text.text, MARGIN: best.rating - other.rating}
        yield Made(item, None, {"quality": best.text.writer, **pair, LABEL_SOURCE: judge})
