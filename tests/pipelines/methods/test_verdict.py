"""Verdicts at looks: hand-worked decisions, and error rates by simulation for every look rule in use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pipelines.methods.looks import ALPHA, LOOKS, Look, plan_looks, seeds_needed, tail
from pipelines.methods.verdict import Verdict, decide, holds_by_holm, judge

SEEN, OPPOSITE, NO_EFFECT, UNDECIDED = Verdict.SEEN, Verdict.OPPOSITE, Verdict.NO_EFFECT, Verdict.UNDECIDED
RULES = [LOOKS[:count] for count in range(1, len(LOOKS) + 1)]
BOUND = 0.025
"""Bound on a false `seen` and on a false `opposite`."""
RUNS = 40_000
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
ARMS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "skewed": lambda rng, shape: rng.exponential(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape),
    "right or wrong": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "coarse": lambda rng, shape: np.round(rng.standard_normal(shape)),
    "one bad seed in five": lambda rng, shape: rng.standard_normal(shape) - 8.0 * (rng.random(shape) < 0.2),
}
"""How one arm's value varies over seeds; an effect is the difference of two arms of the same law."""


def test_the_shares_of_looks_add_up() -> None:
    assert [(look.seeds, look.share) for look in plan_looks(LOOKS)] == [(5, 0.25), (8, 0.15), (12, 0.2), (20, 0.4)]
    assert plan_looks([5]) == (Look(5, 1.0),)
    assert sum(look.alpha for look in plan_looks((5, 8, 12))) == pytest.approx(ALPHA)


def test_a_tail_is_that_of_the_t_test() -> None:
    effects = [0.1, 0.4, 0.2, 0.35, 0.15]
    for bound in (-0.2, 0.0, 0.2, 0.5):
        expected = stats.ttest_1samp(effects, bound, alternative="greater").pvalue
        assert tail(effects, bound) == pytest.approx(expected, rel=1e-9)
    assert tail([0.3], 0.0) == 1.0, "one seed says nothing"


def test_equal_effects_are_judged_by_the_sign_test() -> None:
    assert tail([1.0] * 5, 0.5) == 1 / 32 and tail([1.0] * 5, 1.0) == 1.0 and tail([0.0] * 8, -0.5) == 1 / 256
    found = decide("higher", 0.5, [1.0] * 20, plan_looks(LOOKS))
    assert found is not None and (found.verdict, found.look.seeds) == (SEEN, 12), "at 5 and 8 seeds luck is too likely"


@pytest.mark.parametrize(
    "direction, floor, effects, verdict",
    [
        ("higher", 0.1, [0.30, 0.31, 0.29, 0.30, 0.32], SEEN),
        ("higher", 0.3, [0.30, 0.31, 0.29, 0.30, 0.32], UNDECIDED),
        ("higher", 0.5, [0.30, 0.31, 0.29, 0.30, 0.32], NO_EFFECT),
        ("higher", 0.1, [-0.30, -0.31, -0.29, -0.30, -0.32], OPPOSITE),
        ("lower", 0.1, [-0.30, -0.31, -0.29, -0.30, -0.32], SEEN),
        ("not_lower", 0.1, [-0.01, 0.0, 0.01, 0.0, 0.04], SEEN),
        ("not_lower", 0.1, [-0.30, -0.31, -0.29, -0.30, -0.32], OPPOSITE),
        ("not_higher", 0.1, [-0.9, -0.5, -0.4, -0.7, -0.6], SEEN),
        ("same", 0.1, [0.01, -0.01, 0.0, 0.02, -0.02], SEEN),
        ("same", 0.1, [0.30, 0.31, 0.29, 0.30, 0.32], OPPOSITE),
        ("same", 0.1, [0.0, 0.9, -0.9, 0.5, -0.3], UNDECIDED),
        ("higher", 0.1, [0.3, 0.31, math.nan, 0.3, 0.32], UNDECIDED),
    ],
)
def test_where_the_interval_lies_decides(direction: str, floor: float, effects: list[float], verdict: Verdict) -> None:
    assert judge(direction, floor, effects, ALPHA) is verdict


def test_the_first_look_that_decides_ends_it_and_keeps_its_verdict() -> None:
    looks = plan_looks((5, 8))
    clear = [0.30, 0.31, 0.29, 0.30, 0.32]
    first = decide("higher", 0.1, clear, looks)
    later = decide("higher", 0.1, [*clear, -9.0, -9.0, -9.0], looks)
    assert first == later and first is not None and first.look.seeds == 5
    assert decide("higher", 0.1, [0.0, 0.3, -0.2, 0.4, 0.1], looks) is None, "another look is to come"
    assert decide("higher", 0.1, clear[:4], looks) is None, "no verdict below the first look"


def test_what_stays_undecided_says_how_many_seeds_would_do() -> None:
    effects = [0.0, 0.3, -0.2, 0.4, 0.1, 0.2, 0.0, 0.3]
    found = decide("higher", 0.02, effects, plan_looks((5, 8)))
    assert found is not None and found.verdict is UNDECIDED
    deviation, mean = float(np.std(effects, ddof=1)), float(np.mean(effects))
    z = stats.norm.ppf(1 - ALPHA * 3 / 8) + stats.norm.ppf(0.8)
    assert found.more_seeds == math.ceil((z * deviation / (mean - 0.02)) ** 2)
    assert seeds_needed([0.1, 0.1], 0.1, Look(8, 1.0)) is None, "at the floor no number of seeds decides"


@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=5, max_size=20), st.floats(0.01, 0.5))
def test_mirrored_effects_have_mirrored_verdicts(effects: list[float], floor: float) -> None:
    mirror = [-effect for effect in effects]
    for one, other in (("higher", "lower"), ("not_lower", "not_higher"), ("same", "same")):
        assert judge(one, floor, effects, ALPHA) is judge(other, floor, mirror, ALPHA)
    turned = {SEEN: OPPOSITE, OPPOSITE: SEEN}
    found = judge("higher", floor, effects, ALPHA)
    assert judge("lower", floor, effects, ALPHA) is turned.get(found, found)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holms_step_down(p_values: list[float]) -> None:
    """Independent reference: a claim holds if its adjusted p-value, the running maximum of p (m - rank), is small."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1))
    assert holds_by_holm(p_values, 0.05) == [
        bool(value <= 0.05) if abs(value - 0.05) > 1e-12 else held
        for value, held in zip(adjusted, holds_by_holm(p_values, 0.05), strict=True)
    ]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("law", ARMS)
def test_false_verdicts_are_rarer_than_the_bound(law: str, rule: tuple[int, ...]) -> None:
    """At the hardest null, an effect exactly at the floor or at minus the floor."""
    rng = np.random.default_rng(7)
    shape = (RUNS, rule[-1])
    effects = ARMS[law](rng, shape) - ARMS[law](rng, shape)
    slack = 3 * math.sqrt(BOUND / RUNS)
    for floor in (0.01, 0.5):
        assert _rates(effects + floor, rule, floor)[SEEN] <= BOUND + slack
        assert _rates(effects - floor, rule, floor)[OPPOSITE] <= BOUND + slack
        assert _rates(effects + floor, rule, floor)[NO_EFFECT] <= BOUND + slack


def test_the_simulation_judges_as_the_protocol_does() -> None:
    rng = np.random.default_rng(3)
    for law, draw in ARMS.items():
        effects = draw(rng, (40, 20)) - draw(rng, (40, 20)) + 0.4
        expected = [found.verdict for row in effects if (found := decide("higher", 0.3, list(row), plan_looks(LOOKS)))]
        assert list(_verdicts(effects, LOOKS, 0.3)) == expected, law


def test_power_grows_with_the_effect_and_is_what_the_guide_says() -> None:
    """Rows of the table in pipelines/methods/README.md: effect beyond the floor in deviations -> chance of `seen`."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((RUNS, 20))
    for effect, chance in ((0.5, 0.40), (0.75, 0.77), (1.0, 0.96), (1.5, 1.0)):
        assert _rates(noise + effect + 1.0, LOOKS, 1.0)[SEEN] == pytest.approx(chance, abs=0.02)


def _rates(effects: NDArray[np.float64], rule: tuple[int, ...], floor: float) -> dict[Verdict, float]:
    verdicts = _verdicts(effects, rule, floor)
    return {verdict: float(np.mean(verdicts == verdict)) for verdict in (SEEN, OPPOSITE, NO_EFFECT, UNDECIDED)}


def _verdicts(effects: NDArray[np.float64], rule: tuple[int, ...], floor: float) -> NDArray[np.object_]:
    """Return the verdict on each row for the claim `higher`: `decide`, but for all rows at once."""
    found = np.full(len(effects), UNDECIDED, dtype=object)
    waiting = np.ones(len(effects), dtype=bool)
    for look in plan_looks(rule):
        seen = effects[:, : look.seeds]
        mean, spread = seen.mean(1), seen.std(1, ddof=1) / math.sqrt(look.seeds)
        flat = spread <= np.abs(mean) * 1e-12
        reach = np.where(flat, 0.0, spread * stats.t.ppf(1 - look.alpha, look.seeds - 1))
        judged = waiting & (~flat | (0.5**look.seeds <= look.alpha))
        for verdict, where in (
            (SEEN, mean - reach > floor),
            (OPPOSITE, mean + reach < -floor),
            (NO_EFFECT, (mean - reach > -floor) & (mean + reach < floor)),
        ):
            found[judged & where] = verdict
            judged &= ~where
        waiting &= found == UNDECIDED
    return found
