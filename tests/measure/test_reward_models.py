"""Best of n by a reward model, and its mean score, worked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.heads import LANGUAGE, SCORES
from components.contract.operators import OperatorSpec
from components.evaluate.component import heads
from components.evaluate.params import EvaluateParams
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import METRIC, STRATEGY
from components.modeling.serving.models import Opinions, Rater
from tests.measure.test_outcomes import written

BOOTSTRAP = Bootstrap(300, 0.95, 0)


class Scripted(Rater):
    name = "rm.model"

    def __init__(self, table: dict[str, float | None]) -> None:
        self.table = table

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        return [self.table[text] for _, text in pairs]


def context(**table: float | None) -> MeasureContext:
    return MeasureContext(bootstrap=BOOTSTRAP, further={"scorers": [Scripted(table)]})


def sampled(outcomes: str = "rww") -> ItemOutcomes:
    return replace(written("7" * len(outcomes), outcomes), responses=tuple("abcde"[: len(outcomes)]))


def best(outcome: ItemOutcomes, **table: float | None) -> list[float | None]:
    found = OperatorSpec(name="best_of_n_reward").resolve(STRATEGY)([outcome], context(**table))
    return [found[k].accuracy[0] for k in sorted(found)]


def test_best_of_n_by_a_reward_model() -> None:
    assert best(sampled(), a=-1.0, b=-2.0, c=-3.0) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert best(sampled(), a=-3.0, b=-2.0, c=-1.0) == pytest.approx([1 / 3, 0.0, 0.0])


def test_what_cannot_be_scored_is_behind_all_others() -> None:
    assert best(sampled(), a=-50.0, b=None, c=None) == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_the_mean_reward_of_a_prompt() -> None:
    operator = OperatorSpec(name="reward").resolve(METRIC)
    assert operator([sampled()], context(a=1.0, b=None, c=2.0)) == {"reward": [1.5]}
    assert operator([sampled("r")], context(a=None)) == {"reward": [None]}


def test_scorers_of_an_evaluation_are_language_models_unless_an_operator_asks_for_scores() -> None:
    assert heads(EvaluateParams())["scorers"] == LANGUAGE
    chosen = {"num_samples": 4, "strategies": ["best_of_n_reward"], "metrics": ["reward"]}
    assert heads(EvaluateParams.model_validate(chosen))["scorers"] == SCORES
    mixed = {"num_samples": 4, "strategies": ["best_of_n_reward", {"name": "best_of_n", "by": "scorer"}]}
    assert heads(EvaluateParams.model_validate(mixed))["scorers"] == frozenset()


class Ensemble(Rater):
    name = "ensemble.model"

    def opinions(self, pairs: Sequence[tuple[Any, str]]) -> list[Opinions | None]:
        table = {"a": Opinions((1.0, 3.0), (0.0, 0.0)), "b": Opinions((2.0, 2.0), (0.0, 0.0))}
        return [table.get(text) for _, text in pairs]


def test_the_disagreement_of_an_ensemble_by_hand() -> None:
    operator = OperatorSpec(name="disagreement").resolve(METRIC)
    model: Any = Ensemble()
    given = MeasureContext(bootstrap=BOOTSTRAP, further={"scorers": [model]})
    outcomes = [sampled("rw"), sampled(), replace(sampled("r"), responses=("z",))]
    # heads 1 and 3: standard deviation 1; heads 2 and 2: 0; the third text has no score
    assert operator(outcomes, given) == {"disagreement": [0.5, 0.5, None]}
    with pytest.raises(InputError, match=r"^rm\.model has no heads with means and spreads"):
        operator([sampled("r")], context(a=1.0))
