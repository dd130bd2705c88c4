"""Hallmarks: which cells a claim is about, and when an effect counts as seen."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.measure.intervals import Interval
from pipelines.methods.verdict import Verdict, effect_interval, judge, overall
from tests.pipelines.writing import load, sources, stages

SEEN, NOT_SEEN, OPPOSITE = Verdict.SEEN, Verdict.NOT_SEEN, Verdict.OPPOSITE
RECIPE = """
matrix: {seed: [4, 9], arm: {method: {steps: 5}, baseline: {steps: 6}}}
params: {k: 8}
stages:
  base: {uses: pretrain, matrix: {arm: none}, with: {layers: 2}}
  data: {uses: curate, matrix: none}
  before: {uses: evaluate, matrix: {arm: none}, in: {model: base.model, dataset: data.heldout}}
  rl: {uses: rl, in: {model: base.model, dataset: data.dataset}, with: "${matrix.arm}"}
  after: {uses: evaluate, in: {model: rl.model, dataset: data.heldout}}
hallmark:
  claim: Gains more
  measures:
    gain: {value: "after.pass_at_${params.k} - before.pass_at_8", direction: higher}
  also: {fixed: "rl[arm=baseline].kl@10_20", rows: data.num_rows}
"""


@pytest.mark.usefixtures("toy_catalog")
def test_a_value_means_the_cells_of_one_arm_and_seed(tmp_path: Path) -> None:
    recipe = load(tmp_path, RECIPE)
    assert recipe.hallmark is not None
    gain, fixed, rows = recipe.hallmark.measures
    assert (recipe.hallmark.arms, recipe.hallmark.seeds) == (("method", "baseline"), (4, 9))
    assert gain.sources["method", 9] == {
        "after.pass_at_8": ("after-seed-9-arm-method", "pass_at_8"),
        "before.pass_at_8": ("before-seed-9", "pass_at_8"),
    }
    assert fixed.sources["method", 4] == {"rl[arm=baseline].kl@10_20": ("rl-seed-4-arm-baseline", "kl@10_20")}
    assert rows.sources["baseline", 9] == {"data.num_rows": ("data", "num_rows")}
    assert (gain.effect.source, fixed.words) == ("method - baseline", None)


@pytest.mark.usefixtures("toy_catalog")
def test_one_axis_of_the_matrix_can_be_left_out(tmp_path: Path) -> None:
    found = stages(load(tmp_path, RECIPE))
    assert [name for name in found if name.startswith(("base", "data"))] == ["base-seed-4", "base-seed-9", "data"]
    assert sources(found["rl-seed-9-arm-method"])["model"] == ["base-seed-9.model"]
    assert found["rl-seed-9-arm-method"].params == {"steps": 5}
    assert (found["base-seed-9"].seed, found["base-seed-9"].labels) == (9, {"seed": 9})


@pytest.mark.usefixtures("toy_catalog")
def test_a_child_adds_arms_and_removes_the_claim(tmp_path: Path) -> None:
    load(tmp_path, RECIPE)
    (tmp_path / "recipe.yaml").rename(tmp_path / "parent.yaml")
    recipe = load(tmp_path, "extends: parent.yaml\nmatrix: {arm: {third: {steps: 7}, method: null}}\nhallmark: null\n")
    assert recipe.hallmark is None
    assert {stage.labels.get("arm") for stage in recipe.stages} == {None, "baseline", "third"}


def test_the_interval_of_three_seeds_is_their_range_and_that_of_one_is_unknown() -> None:
    three = effect_interval([0.1, 0.4, 0.1])
    assert (three.value, three.low, three.high, three.n) == (*map(pytest.approx, (0.2, 0.1, 0.4)), 3)
    one = effect_interval([0.3])
    assert (one.value, one.low, one.high) == (0.3, -math.inf, math.inf)


def test_the_interval_is_that_of_all_resamples() -> None:
    """Independent reference: all S^S resamples, counted."""
    effects = [0.0, 0.1, 0.3, 0.35]
    means = sorted(sum(draw) / 4 for draw in itertools.product(effects, repeat=4))
    found = effect_interval(effects)
    for end, share in ((found.low, 0.025), (found.high, 0.975)):
        below = sum(mean < end - 1e-9 for mean in means) / len(means)
        up_to = sum(mean <= end + 1e-9 for mean in means) / len(means)
        assert below - 0.01 <= share <= up_to + 0.01


@pytest.mark.parametrize(
    "direction, margin, low, high, verdict",
    [
        ("higher", 0.0, 0.01, 0.2, SEEN),
        ("higher", 0.0, -0.01, 0.2, NOT_SEEN),
        ("higher", 0.0, -0.2, -0.01, OPPOSITE),
        ("higher", 0.1, 0.05, 0.2, NOT_SEEN),
        ("higher", 0.1, -0.2, -0.05, NOT_SEEN),
        ("higher", 0.1, -0.3, -0.2, OPPOSITE),
        ("lower", 0.0, -0.2, -0.01, SEEN),
        ("lower", 0.0, 0.01, 0.2, OPPOSITE),
        ("not_lower", 0.02, -0.01, 0.3, SEEN),
        ("not_lower", 0.02, -0.03, 0.3, NOT_SEEN),
        ("not_lower", 0.02, -0.3, -0.03, OPPOSITE),
        ("not_higher", 0.02, -0.3, 0.01, SEEN),
        ("not_higher", 0.02, 0.03, 0.3, OPPOSITE),
        ("same", 0.05, -0.01, 0.04, SEEN),
        ("same", 0.05, -0.01, 0.06, NOT_SEEN),
        ("same", 0.05, 0.06, 0.07, OPPOSITE),
        ("higher", 0.0, 2.2e-15, 0.3, NOT_SEEN),  # 0 but for rounding
        ("lower", 0.0, 2.2e-15, 0.3, NOT_SEEN),
    ],
)
def test_the_whole_interval_decides(direction: str, margin: float, low: float, high: float, verdict: Verdict) -> None:
    assert judge(direction, margin, Interval((low + high) / 2, low, high, 3)) is verdict
    assert judge(direction, margin, Interval((low + high) / 2, low, high, 2)) is NOT_SEEN  # too few seeds


@given(st.floats(0, 1), st.floats(-2, 2), st.floats(0, 1))
def test_mirrored_effects_have_mirrored_verdicts(margin: float, low: float, width: float) -> None:
    effect, mirror = Interval(low, low, low + width, 5), Interval(-low, -low - width, -low, 5)
    for one, other in (("higher", "lower"), ("not_lower", "not_higher"), ("same", "same")):
        assert judge(one, margin, effect) is judge(other, margin, mirror)
    turned = {SEEN: OPPOSITE, OPPOSITE: SEEN, NOT_SEEN: NOT_SEEN}
    assert judge("lower", margin, effect) is turned[judge("higher", margin, effect)]


def test_a_claim_is_seen_if_all_of_it_is() -> None:
    assert overall([SEEN, SEEN]) is SEEN
    assert overall([SEEN, NOT_SEEN]) is NOT_SEEN
    assert overall([SEEN, OPPOSITE, NOT_SEEN]) is OPPOSITE
