"""Rubrics: criteria that a response is scored by, each checked by a verifier, and how their scores become one.

A row holds its rubric in `data`, or a stage has one for all rows. A criterion is checked by whatever a row may name as
its verifier, so programs, tests and functions in users' files are criteria, and so is a judge that is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from components.contract.errors import InputError, schema_problems
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.tasks.item import Item
from components.tasks.slots import VERIFIER
from components.tasks.verify import SETTINGS

Score = Annotated[float, Field(ge=0, le=1)]


class Tier(Params):
    """One step of a graded criterion."""

    at_least: Score
    """Score of the check from which on the tier holds."""
    points: Score
    """Score of the criterion in this tier."""


class Saturation(Params):
    """A concave transform: what is above a score counts less, so that one criterion cannot dominate."""

    above: Score
    """Score up to which all counts."""
    slope: Score = 0.0
    """Share that counts of what is above it."""


class Criterion(Params):
    """What is checked, by which verifier, and how much it counts."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")
    """Name in the history, `criterion_<name>`, and in interactions."""
    verifier: Annotated[OperatorSpec, VERIFIER]
    """Verifier that checks it, with its settings."""
    answer: str = ""
    """Reference of the check."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What the verifier needs beside it; JSON only."""
    of_item: bool = False
    """Whether the check sees the item's own answer and data, too, where the criterion has none."""
    weight: float = 1.0
    """Points; negative for what a response should avoid."""
    veto: bool = False
    """Whether a response that fails it gets `veto_value` in all; its own weight counts where it does not."""
    tiers: tuple[Tier, ...] = ()
    """Steps in rising order; a score below the first one is 0. Without them the score itself counts."""
    saturation: Saturation | None = None
    """Applied behind the tiers."""

    @field_validator("verifier")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(low.at_least >= high.at_least for low, high in pairwise(self.tiers)):
            raise ValueError("tiers rise from one to the next")
        return self

    def value(self, score: float) -> float:
        """Return what a score of the check is worth, in [0, 1], before the weight."""
        if self.tiers:
            score = next((tier.points for tier in reversed(self.tiers) if score >= tier.at_least), 0.0)
        limit = self.saturation
        if limit is None or score <= limit.above:
            return score
        return limit.above + limit.slope * (score - limit.above)


class Interaction(Params):
    """Two criteria that count together: synergy with a positive weight, conflict with a negative one."""

    of: tuple[str, str]
    """Names of both."""
    weight: float
    """Points for the product of their values."""


class Rubric(Params):
    """Criteria and their interactions."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    """What a response is scored by."""
    interactions: tuple[Interaction, ...] = ()
    """Pairs of criteria that also count together."""
    veto_below: Score = 1.0
    """Score of the check below which a criterion with `veto` fails."""
    veto_value: float = 0.0
    """The total of a response that fails one."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        names = [criterion.name for criterion in self.criteria]
        if len(set(names)) < len(names):
            raise ValueError(f"criteria have different names, not {', '.join(names)}")
        for pair in self.interactions:
            for name in pair.of:
                if name not in names:
                    raise ValueError(f"an interaction names the criterion {name!r}; there are {', '.join(names)}")
        if not self.most > 0:
            raise ValueError("the positive weights sum to 0, so that no response can score")
        return self

    @property
    def most(self) -> float:
        """Return the points of a response that meets every criterion and triggers nothing negative."""
        weights = [part.weight for part in (*self.criteria, *self.interactions)]
        return math.fsum(weight for weight in weights if weight > 0)

    def total(self, scores: Mapping[str, float]) -> float:
        """Return the score in [0, 1] of a response, from the scores of the checks by criterion; NaN if one is NaN.

        Sum of weight times value, interactions included, over the sum of positive weights, cut to [0, 1].
        """
        if any(math.isnan(score) for score in scores.values()):
            return math.nan
        if any(criterion.veto and scores[criterion.name] < self.veto_below for criterion in self.criteria):
            return self.veto_value
        values = {criterion.name: criterion.value(scores[criterion.name]) for criterion in self.criteria}
        points = [criterion.weight * values[criterion.name] for criterion in self.criteria]
        points += [pair.weight * values[pair.of[0]] * values[pair.of[1]] for pair in self.interactions]
        return min(1.0, max(0.0, math.fsum(points) / self.most))


def rubric_of(item: Item, key: str) -> Rubric | None:
    """Return the rubric in an item's data, a list of criteria or all of it; None without one.

    Raises InputError, naming the item, for one that is malformed.
    """
    written: Any = item.data.get(key)
    if written is None:
        return None
    try:
        return Rubric.model_validate({"criteria": written} if isinstance(written, list) else written)
    except ValidationError as error:
        raise InputError(f"data.{key} of item {item.id} is no rubric: {schema_problems(error)}") from error


def checks(item: Item, rubric: Rubric) -> Sequence[Item]:
    """Return the item as each criterion sees it: with the criterion's own verifier, reference and data."""
    return [item.model_copy(update=_own(criterion, item)) for criterion in rubric.criteria]


def _own(criterion: Criterion, item: Item) -> dict[str, Any]:
    settings = {SETTINGS: criterion.verifier.settings} if criterion.verifier.settings else {}
    data, answer = {**criterion.data, **settings}, criterion.answer
    if criterion.of_item:
        data = {key: value for key, value in item.data.items() if key != SETTINGS} | data
        answer = answer or item.answer
    return {"verifier": criterion.verifier.name, "answer": answer, "data": data}
