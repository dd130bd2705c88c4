"""Differences between arms against values worked by hand and scipy's own test."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from components.contract.registry import components
from pipelines.report.arms.differences import Difference, adjusted, difference, t_test
from pipelines.report.collect import Stage
from pipelines.report.evaluations import Estimate, Evaluation
from tests.pipelines.report.made import MadeRun

METRIC = "pass_at_1_sums"
RESULTS = components().get("evaluate").results


def pooled(*stages: Stage) -> Evaluation:
    return Evaluation("evaluate", list(stages), RESULTS)


def test_one_evaluation_each_is_paired_by_prompt(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    theirs = run.evaluate({"sums": [0, 1, 2, 3]}, {"arm": "a"})
    ours = run.evaluate({"sums": [2, 3, 4, 4, 0]}, {"arm": "b"})  # its fifth prompt is not one of theirs
    found = difference(pooled(ours), pooled(theirs), METRIC)
    assert found is not None and found.estimate.value == pytest.approx((2 + 2 + 2 + 1) / 16)
    assert (found.estimate.n, found.estimate.over) == (4, "prompts")
    assert found.estimate.low is not None and 0.25 < found.estimate.low <= found.estimate.value
    assert found.p == pytest.approx(2 / 16), "of 16 flips of four signs only none and all are as far from 0"
    back = difference(pooled(theirs), pooled(ours), METRIC)
    assert back is not None and back.estimate.value == -found.estimate.value and found.clear and back.clear


def test_several_seeds_are_paired_by_seed(tmp_path: Path) -> None:
    run, rates = MadeRun(tmp_path), {"a": [[0, 0], [1, 1]], "b": [[1, 0], [4, 1]]}
    found = {
        arm: pooled(*(run.evaluate({"sums": counts}, {"arm": arm, "seed": seed}) for seed, counts in enumerate(of)))
        for arm, of in rates.items()
    }
    moved = difference(found["b"], found["a"], METRIC)
    assert moved is not None  # 1/8 and 3/8: mean 1/4, standard error 1/8, t of one degree of freedom 12.706
    assert moved.estimate.value == pytest.approx(0.25) and moved.estimate.over == "seeds"
    assert moved.estimate.low == pytest.approx(0.25 - 12.706 / 8, abs=1e-4)
    assert moved.p == pytest.approx(ttest_1samp([0.125, 0.375], 0).pvalue)


@pytest.mark.parametrize("values", [[0.1, 0.2, 0.4], [-0.3, 0.1, 0.05, -0.2], [1e-9, 2e-9]])
def test_the_t_test_is_that_of_scipy(values: list[float]) -> None:
    assert t_test(values) == pytest.approx(ttest_1samp(values, 0).pvalue)


def test_values_that_do_not_vary_are_certain() -> None:
    assert (t_test([0.0, 0.0]), t_test([0.5, 0.5])) == (1.0, 0.0)


def test_what_has_nothing_in_common_is_not_compared(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    one = run.evaluate({"sums": [1, 2]}, {"arm": "a", "seed": 0})
    other = run.evaluate({"words": [1, 2]}, {"arm": "b", "seed": 0})
    assert difference(pooled(other), pooled(one), METRIC) is None
    more = [run.evaluate({"sums": [1, 2]}, {"arm": "c", "seed": seed}) for seed in (5, 6)]
    assert difference(pooled(*more), pooled(one), METRIC) is None, "no seed in common"


def test_no_prompt_in_common_is_nothing_to_compare(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    one, other = (run.evaluate({"sums": [1, 2]}, {"arm": arm}) for arm in "ab")
    ledger = other.files["metrics"] / "passrates.jsonl"
    ledger.write_text(ledger.read_text().replace('"sums-', '"others-'))
    assert difference(pooled(other), pooled(one), METRIC) is None


def test_without_pass_rates_a_difference_has_no_interval(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    one, other = run.evaluate({"sums": [1, 2]}, {"arm": "a"}), run.evaluate({"sums": [3, 4]}, {"arm": "b"})
    (other.files["metrics"] / "passrates.jsonl").unlink()
    found = difference(pooled(other), pooled(one), METRIC)
    assert found == Difference(Estimate(0.5)) and not found.clear


def test_p_values_are_adjusted_for_the_arms_that_have_one() -> None:
    estimates = [Difference(Estimate(0.1), p) for p in (0.01, None, 0.04)]
    found = adjusted([*estimates, None])
    assert [one.p if one else "none" for one in found] == [0.02, None, 0.04, "none"]
