"""Rules of alarms on histories made by hand: when they are raised, since when, and when they are over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.alarms import (
    Alarm,
    Alone,
    Growth,
    Level,
    NotFinite,
    Parting,
    Quotient,
    Remainder,
    Rule,
    Stillness,
)
from components.contract.component import Component
from components.contract.errors import InputError
from components.contract.params import Params
from components.modeling.supervised.alarms import SUPERVISED_ALARMS
from components.rl.alarms import RL_ALARMS
from components.runtime.alarms.watch import Raised, Watch

losses = st.lists(st.floats(0, 50, allow_nan=False), max_size=60)


def alarm(rule: Rule, bound: float, rows: int = 1, **fields: Any) -> Alarm:
    return Alarm(
        **{"name": "a", "says": "{value}", "helps": "h", "reason": "r", **fields}, rule=rule, bound=bound, rows=rows
    )


def raised(alarms: Sequence[Alarm], rows: Sequence[dict[str, float]], **bounds: float | None) -> list[tuple[Any, ...]]:
    """Return (name, since, raised, cleared) of every alarm; rows are steps 1, 2, ..., and NaN is lost."""
    watch = Watch(alarms, bounds=bounds)
    for step, row in enumerate(rows, 1):
        finite = {name: value for name, value in row.items() if math.isfinite(value)}
        watch.take(step, finite, sorted(set(row) - set(finite)))
    return [(item.name, item.since, item.raised, item.cleared) for item in watch.raised]


def column(name: str, *values: float) -> list[dict[str, float]]:
    return [{name: value} for value in values]


def test_a_level_is_raised_once_from_where_it_began_and_is_over_after_as_many_rows() -> None:
    rule = alarm(Level(column="x"), 1.0, rows=2)
    assert raised([rule], column("x", 0, 2, 0, 2, 2, 2, 0, 2, 0, 0, 0)) == [("a", 4, 5, 10)]
    assert raised([rule], column("x", 2, 2, 0, 0, 2, 2)) == [("a", 1, 2, 4), ("a", 5, 6, None)]
    assert raised([rule], column("x", 1, 1, 1)) == []  # at the bound is within it


def test_a_low_level_holds_at_its_bound() -> None:
    assert raised([alarm(Level(column="x", below=True), 0.0, rows=3)], column("x", 0, 0, 0)) == [("a", 1, 3, None)]


def test_rows_without_the_column_neither_raise_nor_clear() -> None:
    rows = [{"x": 2}, {"y": 0}, {"x": 2}, {"y": 0}, {"y": 0}]
    assert raised([alarm(Level(column="x"), 1.0, rows=2)], rows) == [("a", 1, 3, None)]


def test_growth_is_from_the_best_mean_or_the_first_row() -> None:
    rule = alarm(Growth(column="x", window=2), 2.0, rows=2)
    assert raised([rule], column("x", 3, 50, 60, 70)) == [("a", 2, 3, None)]  # (50 - 3) / 3 from the first row
    # the best mean of two is 0.5, below one nat, so the bound is 0.5 + 2
    assert raised([rule], column("x", 1, 0.5, 0.5, 2.4, 2.4, 2.6, 2.6)) == [("a", 6, 7, None)]
    assert raised([rule], column("x", 4, 3, 2, 1, 3, 1, 3)) == []


def test_a_remainder_is_counted_from_its_floor_after_the_first_rows() -> None:
    rule = alarm(Remainder(column="x", floor=1, window=2), 0.1, rows=2)
    assert raised([rule], column("x", 11, 11, 2, 2.1, 2, 1)) == [("a", 5, 6, None)]  # (2 - 1) / 10 is the bound
    assert raised([rule], column("x", 1.5, 1.5, 1, 1, 1)) == []  # there was nothing to lose


def test_a_quotient_is_of_each_row() -> None:
    rows = [{"bad": bad, "all": 10.0} for bad in (2, 3, 3)]
    assert raised([alarm(Quotient(part="bad", whole="all"), 0.2, rows=2)], rows) == [("a", 2, 3, None)]
    assert raised([alarm(Quotient(part="bad", whole="all"), 0.2)], [{"bad": 0, "all": 0}]) == []


def test_stillness_needs_no_spread_and_no_change() -> None:
    rule = alarm(Stillness(mean="m", spread="s"), 1e-6, rows=2)
    assert raised([rule], [{"m": 0.5, "s": 0.0}] * 2) == [("a", 1, 2, None)]
    assert raised([rule], [{"m": 0.5, "s": 0.1}] * 4) == []
    assert raised([rule], [{"m": m, "s": 0.0} for m in (0.1, 0.2, 0.1, 0.2)]) == []


def test_a_parting_needs_the_one_to_rise_while_the_other_falls() -> None:
    rule = alarm(Parting(up="r", down="p", window=2), 0.1)
    rising = [{"r": r, "p": p} for r, p in ((1, 0.5), (1, 0.5), (2, 0.3), (2, 0.3))]
    assert raised([rule], rising) == [("a", 4, 4, None)]  # the mean of the last two fell by 0.2
    falling = [{"r": -row["r"], "p": row["p"]} for row in rising]
    assert raised([rule], falling) == []


def test_a_part_that_rises_alone_is_named() -> None:
    rule = alarm(Alone(prefix="reward_", without=("reward_mean",), beside=("pass_rate",), window=2), 5.0)
    start = [{"reward_a": a, "reward_b": 0.5, "pass_rate": 0.5, "reward_mean": 9.0} for a in (0.1, 0.2)]
    alone = [{"reward_a": 0.9, "reward_b": 0.5, "pass_rate": 0.5, "reward_mean": 9.0}] * 2
    assert raised([rule], [*start, *alone]) == [("a", 3, 3, None)]
    together = [{**row, "pass_rate": 0.9} for row in alone]
    assert raised([rule], [*start, *together]) == [], "what it is worth shows in the pass rate"
    both = [{**row, "reward_b": 0.9} for row in alone]
    assert raised([rule], [*start, *both]) == []
    single = [{"reward_a": row["reward_a"]} for row in (*start, *alone)]
    assert raised([rule], single) == [], "with nothing beside it nothing can be said"


def test_values_that_are_not_finite_are_named() -> None:
    watch = Watch([alarm(NotFinite(columns=("loss", "grad_norm")), 0)])
    assert [item.text for item in watch.take(7, {}, ["grad_norm", "loss"])] == ["loss and grad_norm"]
    assert [item.cleared for item in watch.take(8, {"loss": 1.0})] == [8]


def test_an_explained_alarm_waits_for_its_cause_and_an_excused_row_is_within_the_bound() -> None:
    cause = alarm(Level(column="x"), 1.0, name="cause")
    effect = alarm(Level(column="x"), 0.0, name="effect", explained_by=("cause",))
    assert raised([cause, effect], column("x", 2, 2, 0.5)) == [("cause", 1, 1, 3), ("effect", 1, 3, None)]
    solved = alarm(Level(column="x"), 1.0, rows=2, unless=("p", 0.9))
    assert raised([solved], [{"x": 2, "p": 0.95}] * 3) == []


def test_bounds_are_replaced_and_alarms_turned_off() -> None:
    rows = column("loss", 1, *[9] * 6)
    assert [name for name, *_ in raised(SUPERVISED_ALARMS, rows)] == ["loss_exploded"]
    assert raised(SUPERVISED_ALARMS, rows, loss_exploded=10.0) == []
    assert raised(SUPERVISED_ALARMS, rows, loss_exploded=None) == []
    assert [name for name, *_ in raised(SUPERVISED_ALARMS, rows, loss_exploded=0.0)] == ["loss_exploded"]


@given(losses, st.floats(0.1, 10), st.floats(0, 10))
def test_a_wider_bound_raises_nothing_that_a_narrower_one_does_not(
    values: list[float], bound: float, more: float
) -> None:
    for rule in (Level(column="x"), Growth(column="x")):
        rows = column("x", *values)
        wide, narrow = (raised([alarm(rule, at, rows=3)], rows) for at in (bound + more, bound))
        beyond = {step for _, since, _, over in narrow for step in range(since, (over or len(values)) + 1)}
        assert all(start in beyond for _, _, start, _ in wide)


@given(losses, st.integers(0, 60))
def test_a_watch_that_takes_the_rows_again_has_the_same_alarms(values: list[float], cut: int) -> None:
    rows = column("loss", *values)
    whole, resumed = Watch(SUPERVISED_ALARMS), Watch(SUPERVISED_ALARMS)
    told: list[Raised] = []
    for step, row in enumerate(rows, 1):
        told += whole.take(step, row)
    for step, row in enumerate(rows[:cut], 1):
        resumed.take(step, row)
    for step, row in enumerate(rows[cut:], len(rows[:cut]) + 1):
        resumed.take(step, row)
    assert resumed.raised == whole.raised
    assert len(told) == whole.changes


@pytest.mark.parametrize(
    ("column_of", "value", "name"),
    [
        ("truncated_share", 1.0, "all_truncated"),
        ("entropy", 0.001, "entropy_collapsed"),
        ("pass_rate", 0.0, "nothing_right"),
        ("start_kl_k3", 30.0, "kl_beyond_bound"),
        ("sampler_gap_mean", 0.3, "sampler_gap"),
    ],
)
def test_the_alarms_of_rl_are_raised_by_what_they_name(column_of: str, value: float, name: str) -> None:
    healthy = {"pass_rate": 0.4, "reward_mean": 0.4, "reward_std": 0.5, "entropy": 0.5, "truncated_share": 0.1}
    assert raised(RL_ALARMS, [healthy] * 60) == []
    found = raised(RL_ALARMS, [healthy] * 10 + [{**healthy, column_of: value}] * 25)
    assert [(item[0], item[1]) for item in found] == [(name, 11)]


def test_a_short_run_shows_that_all_is_truncated() -> None:
    row = {"pass_rate": 0.0, "reward_mean": 0.0, "reward_std": 0.0, "entropy": 2.0}
    assert raised(RL_ALARMS, [{**row, "truncated_share": 1.0}] * 3) == [("all_truncated", 1, 3, None)]
    often = [{**row, "truncated_share": share} for share in (1.0, 1.0, 0.94, 1.0, 1.0)]
    assert raised(RL_ALARMS, often) == [], "a model that ends one response of sixteen is no case of it"


def test_a_verifier_that_raises_explains_what_follows_from_it() -> None:
    lost = {"num_raised": 3.0, "num_judged": 10.0, "pass_rate": 0.0, "reward_mean": 0.0, "reward_std": 0.0}
    assert [name for name, *_ in raised(RL_ALARMS, [lost] * 60)] == ["verifier_raises"]
    assert raised(RL_ALARMS, [{**lost, "num_raised": 2.0, "pass_rate": 0.4, "reward_std": 0.5}] * 60) == []


def test_one_cause_raises_one_alarm() -> None:
    """A policy that never ends its responses is never right, and has one reward."""
    lost = {"truncated_share": 1.0, "pass_rate": 0.0, "reward_mean": 0.0, "reward_std": 0.0, "entropy": 2.0}
    assert [name for name, *_ in raised(RL_ALARMS, [lost] * 60)] == ["all_truncated"]
    solved = {"truncated_share": 0.0, "pass_rate": 1.0, "reward_mean": 1.0, "reward_std": 0.0, "entropy": 0.0}
    assert raised(RL_ALARMS, [solved] * 60) == []


def test_a_declaration_that_cannot_work_is_refused() -> None:
    one = alarm(Level(column="x"), 1.0)

    def component(*alarms: Alarm) -> Component:
        return Component(name="c", summary="", inputs={}, outputs={}, params=Params, run="m:f", alarms=alarms)

    with pytest.raises(InputError, match="'a' is declared twice"):
        component(one, one)
    with pytest.raises(InputError, match="explained by 'b', which is not declared"):
        component(alarm(Level(column="x"), 1.0, explained_by=("b",)))
    with pytest.raises(InputError, match="finite bound"):
        alarm(Level(column="x"), math.inf)
