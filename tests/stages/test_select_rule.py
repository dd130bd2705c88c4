"""The rule of selection on hand-made outcomes: eligibility, the best, ties, and what happens when nothing fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from components.contract.errors import InputError, StageFailed
from components.measure.ledger import PassRateRow
from components.select.choose import choose
from components.select.params import SelectParams
from components.select.scores import Scores, scores_of_ledger
from components.tasks.item import Item

A, B = ("pass_at_1", "A"), ("pass_at_1", "B")
EASY = np.linspace(0.1, 0.9, 40)


def model(name: str, a: float, b: float = 0.9) -> Scores:
    """A model whose prompts on A differ from those of others by one shift."""

    return Scores(name, {A: EASY - EASY.mean() + a, B: np.full(20, b)})


def pick(candidates: list[Scores], baseline: Scores | None = None, **params: Any) -> Any:
    given = SelectParams.model_validate({"objective": {"domain": "A"}, "bootstrap_samples": 300, **params})
    return choose(candidates, baseline, given, ["A", "B"], seed=0)


def statuses(choice: Any) -> list[str]:
    return [entry.status for entry in choice.judged]


def test_the_highest_objective_wins_when_pairs_tell_them_apart() -> None:
    choice = pick([model("one", 0.5), model("two", 0.6), model("three", 0.55)])
    assert statuses(choice) == ["worse", "chosen", "worse"]
    assert choice.satisfied and choice.judged[1].objective.value == pytest.approx(0.6)
    # paired: the shift is the same on every prompt, so there is no doubt, wide as the single intervals are
    assert choice.judged[0].behind.low == pytest.approx(0.1)
    assert choice.judged[0].objective.high > choice.judged[1].objective.low


class TestTies:
    """Three models, the last best by a hair that noise covers."""

    first, second = Scores("a", {A: np.tile([0.0, 1.0], 20)}, 0.1), Scores("b", {A: np.tile([1.0, 0.0], 20)}, 0.5)
    best = Scores("c", {A: np.r_[np.tile([0.0, 1.0], 19), 1.0, 1.0]}, 0.2)

    def test_the_earliest_of_the_tied_is_preferred(self) -> None:
        choice = pick([self.first, self.second, self.best])
        assert statuses(choice) == ["chosen", "tied", "tied"]
        assert choice.reason.startswith("3 candidates cannot be told from the best, c")

    def test_or_the_one_with_the_highest_entropy(self) -> None:
        assert statuses(pick([self.first, self.second, self.best], tie_rule="highest_entropy"))[1] == "chosen"

    def test_or_the_best_all_the_same(self) -> None:
        assert statuses(pick([self.first, self.second, self.best], tie_rule="best"))[2] == "chosen"

    def test_equal_models_are_tied_and_the_first_is_best(self) -> None:
        twin = Scores("twin", self.first.values, 0.0)
        assert statuses(pick([self.first, twin], tie_rule="best")) == ["chosen", "tied"]


DROP = {"constraints": [{"domain": "B", "max_drop": 0.05}]}
BASE = model("base", 0.3, 0.9)


class TestConstraints:
    """A candidate that lost domain B is out, however good it is on A."""

    def test_drops_are_against_the_baseline(self) -> None:
        choice = pick([model("rl", 0.9, 0.5), model("replay", 0.85, 0.88), model("sft", 0.3)], BASE, **DROP)
        assert statuses(choice) == ["rejected", "chosen", "worse"]
        (check,) = choice.judged[0].checks
        assert check.measured.value == pytest.approx(-0.4) and check.shortfall == pytest.approx(0.35)
        assert "at most 0.05 lost" in check.describe()

    def test_a_drop_of_exactly_the_limit_holds(self) -> None:
        assert statuses(pick([model("edge", 0.9, 0.85)], BASE, **DROP)) == ["chosen"]

    def test_a_least_value_needs_no_baseline(self) -> None:
        choice = pick([model("rl", 0.9, 0.5), model("sft", 0.3)], constraints=[{"domain": "B", "min_value": 0.8}])
        assert statuses(choice) == ["rejected", "chosen"]

    def test_confident_constraints_look_at_the_worse_end(self) -> None:
        noisy = Scores("noisy", {A: EASY, B: np.r_[np.zeros(2), np.ones(18)]})  # 0.9, but it may be below 0.85
        rule = {"domain": "B", "min_value": 0.85}
        assert pick([noisy], constraints=[rule]).satisfied
        with pytest.raises(StageFailed):
            pick([noisy], constraints=[{**rule, "confident": True}])

    def test_nothing_eligible_fails_and_lists_every_reason(self) -> None:
        with pytest.raises(StageFailed, match="none of 2 candidates") as failure:
            pick([model("x", 0.9, 0.1), model("y", 0.9, 0.5)], BASE, **DROP)
        assert "x: pass_at_1 on B: -0.800" in str(failure.value) and "best_effort" in str(failure.value)

    def test_or_takes_the_least_violation(self) -> None:
        candidates = [model("x", 0.9, 0.1), model("y", 0.2, 0.5), model("z", 0.4, 0.5)]
        choice = pick(candidates, BASE, if_none="best_effort", **DROP)
        assert statuses(choice) == ["rejected", "rejected", "chosen"] and not choice.satisfied
        assert "0.350" in choice.reason

    def test_a_constraint_that_cannot_be_measured_does_not_hold(self) -> None:
        unknown = Scores("unknown", {A: EASY, B: np.full(20, np.nan)})
        with pytest.raises(StageFailed):
            pick([unknown], BASE, **DROP)


def test_weights_make_a_mean_over_domains() -> None:
    candidates = [model("a", 0.8, 0.2), model("b", 0.5, 0.6)]
    assert statuses(pick(candidates, objective={"weights": {"A": 3, "B": 1}}))[0] == "chosen"  # 0.65 to 0.525
    assert statuses(pick(candidates, objective={}))[1] == "chosen"  # 0.5 to 0.55


def test_unverified_prompts_do_not_count_against_a_candidate() -> None:
    values = model("gaps", 0.6).values[A].copy()
    values[:5] = np.nan
    choice = pick([Scores("gaps", {A: values}), model("lower", 0.5)])
    assert statuses(choice) == ["chosen", "worse"]
    assert choice.judged[1].behind.n == 35


@pytest.mark.parametrize(
    "params",
    [
        {"objective": {"metric": "reward"}},
        {"objective": {"domain": "A", "weights": {"B": 1}}},
        {"objective": {"weights": {"A": 0}}},
        {"constraints": [{"domain": "B"}]},
        {"constraints": [{"domain": "B", "max_drop": 0.1, "min_value": 0.5}]},
        {"constraints": [{"domain": "B", "max_drop": 5}]},
    ],
)
def test_senseless_rules_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        SelectParams.model_validate(params)


def test_a_ledger_serves_as_baseline() -> None:
    items = [Item(id=name, domain="B", prompt="", answer="", verifier="exact") for name in ("p", "q", "r")]
    rows = {
        "p": PassRateRow(prompt_id="p", domain="B", num_samples=4, num_right=1, num_wrong=3, num_failed=0),
        "q": PassRateRow(prompt_id="q", domain="B", num_samples=4, num_right=1, num_wrong=0, num_failed=3),
    }
    found = scores_of_ledger("baseline", {"B": rows}, {"B": items}, [B, ("pass_at_2", "B")])
    np.testing.assert_allclose(found.values[B], [0.25, 1.0, np.nan])
    np.testing.assert_allclose(found.values["pass_at_2", "B"], [0.5, np.nan, np.nan])
    with pytest.raises(InputError, match="maj_at_2"):
        scores_of_ledger("baseline", {"B": rows}, {"B": items}, [("maj_at_2", "B")])
    with pytest.raises(InputError, match="no pass_at_1"):
        scores_of_ledger("baseline", {}, {"B": items}, [B])
