"""Diagnostic filtration: a scorer that is blind in the middle, what is left out, and what it asks for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.evaluate.params import EvaluateParams
from components.measure.harness.context import MeasureContext
from components.measure.harness.views import View
from components.measure.intervals import Bootstrap, Interval
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import DIAGNOSTIC
from components.modeling.serving.models import Rater
from components.tasks.verdict import wrong
from tests.measure.test_outcomes import written


class Scripted(Rater):
    """Rates the number in a text."""

    name = "rm.model"

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        return [float(text.split()[0]) if text else None for _, text in pairs]


def prompt(rewards: list[float | None], truth: list[float]) -> ItemOutcomes:
    texts = tuple("" if reward is None else f"{reward} points" for reward in rewards)
    verdicts = tuple(wrong("", graded=value) for value in truth)
    return replace(written("7" * len(truth), "w" * len(truth)), responses=texts, verdicts=verdicts)


def diagnosed(outcomes: list[ItemOutcomes], **config: Any) -> View:
    model: Any = Scripted()
    given = MeasureContext(bootstrap=Bootstrap(100, 0.95, 0), further={"scorers": [model]})
    view = OperatorSpec.model_validate({"name": "filtration", **config}).resolve(DIAGNOSTIC)({"notes": outcomes}, given)
    assert isinstance(view, View)
    return view


def value(view: View, name: str) -> float:
    found = view.metrics[f"r2_{name}_notes"]
    assert isinstance(found, Interval) and found.low <= found.value <= found.high
    return found.value


def test_the_ends_of_a_scorer_that_is_blind_in_the_middle() -> None:
    rng = random.Random(0)
    outcomes = []
    for _ in range(200):
        truth = [rng.random() for _ in range(6)]
        blind = [t if t < 0.2 or t > 0.8 else rng.uniform(0.2, 0.8) for t in truth]
        outcomes.append(prompt(list(blind), truth))
    view = diagnosed(outcomes, bins=20)
    assert value(view, "bw") > value(view, "all") > value(view, "middle")
    table = view.tables[0]
    assert list(table.head)[:4] == ["domain", "all", "middle", "bon"] and len(table.rows[0]) == len(table.head)


def test_what_has_no_reward_or_too_few_responses_is_left_out() -> None:
    steps = [0.0, 0.25, 0.5, 1.0]
    whole = [prompt(list(steps), steps) for _ in range(4)]
    known = diagnosed(whole, bins=3)
    more = diagnosed([*whole, prompt([9.0, None, None], [0.0, 1.0, 1.0])], bins=3)
    assert value(known, "all") == pytest.approx(1.0) and value(more, "all") == pytest.approx(1.0)
    assert diagnosed([prompt([1.0, 2.0], [0.0, 1.0])]).metrics == {}


def test_it_needs_three_samples() -> None:
    with pytest.raises((InputError, ValueError), match="3 samples"):
        EvaluateParams.model_validate({"num_samples": 2, "diagnostics": ["filtration"]})
