"""Static samplers: by hand, against scipy, and within their space whatever it is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.recipe.sweep.samplers import draw_grid, draw_halton, draw_random, num_values, radical_inverse, value_at
from pipelines.recipe.sweep.words import RangeWords

LOG = RangeWords(low=1e-4, high=1e-2, log=True)


def test_the_radical_inverse_is_scipy_s_halton_sequence() -> None:
    qmc = pytest.importorskip("scipy.stats").qmc
    there = qmc.Halton(3, scramble=False).random(40)
    here = [[radical_inverse(number, base) for base in (2, 3, 5)] for number in range(40)]
    assert all(point == pytest.approx(other) for point, other in zip(here, there.tolist(), strict=True))


def test_values_by_hand() -> None:
    assert value_at(LOG, 0.5) == 1e-3 and value_at(LOG, 0.0) == 1e-4
    assert value_at(RangeWords(low=0.0, high=1.0), 0.123456) == 0.1235
    assert value_at(RangeWords(low=1000.0, high=1001.0), 0.123456) == 1000.123
    assert [value_at(RangeWords(low=2, high=6, step=2), unit) for unit in (0.0, 0.34, 0.99)] == [2, 4, 6]
    assert [value_at(RangeWords(low=1, high=100, log=True), unit) for unit in (0.0, 0.5, 0.999)] == [1, 10, 100]
    assert [value_at(["a", "b", "c"], unit) for unit in (0.0, 0.5, 0.99)] == ["a", "b", "c"]


def test_a_grid_by_hand() -> None:
    space: dict[str, Any] = {"rate": RangeWords(low=1e-4, high=1e-2, log=True, points=3), "size": [8, 16]}
    assert [tuple(point.values()) for point in draw_grid(space)] == [
        (1e-4, 8), (1e-4, 16), (1e-3, 8), (1e-3, 16), (1e-2, 8), (1e-2, 16)
    ]  # fmt: skip


def test_random_points_are_distinct_and_end_with_the_space() -> None:
    space: dict[str, Any] = {"a": [1, 2, 3], "b": [True, False]}
    points = draw_random(space, 0, 6)
    assert len(points) == 6 == len({tuple(point.values()) for point in points})
    assert draw_random(space, 0, 3) == points[:3] != draw_random(space, 1, 3)


def test_a_halton_sequence_covers_each_parameter_evenly() -> None:
    points = draw_halton({"a": RangeWords(low=0.0, high=1.0), "b": LOG}, seed=7, count=16)
    for name, unit in (("a", lambda v: v), ("b", lambda v: math.log(v / 1e-4) / math.log(100))):
        cells = [min(int(unit(point[name]) * 4), 3) for point in points]
        assert all(2 <= cells.count(cell) <= 6 for cell in range(4)), (name, cells)


@given(
    low=st.floats(1e-6, 1e3),
    width=st.floats(1e-3, 1e3),
    log=st.booleans(),
    seed=st.integers(0, 99),
    count=st.integers(1, 9),
)
@example(low=1000.0, width=1e-3, log=False, seed=0, count=9)
def test_draws_lie_in_their_range(low: float, width: float, log: bool, seed: int, count: int) -> None:
    real = RangeWords(low=low, high=low * (1 + width), log=log)
    whole = RangeWords(low=int(low) + 1, high=int(low + width) + 2, log=log)
    for draw in (draw_random, draw_halton):
        points = draw({"real": real, "whole": whole}, seed, count)
        assert len(points) == count
        for point in points:
            assert real.low <= point["real"] <= real.high
            assert whole.low <= point["whole"] <= whole.high and isinstance(point["whole"], int)
    assert num_values(real) == math.inf and num_values(whole) == whole.high - whole.low + 1
