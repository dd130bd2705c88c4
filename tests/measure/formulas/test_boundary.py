"""Crossing and support: examples worked by hand, and the scores from their definitions on random cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hmean

from components.measure.formulas.crossing import first_crossing
from components.measure.formulas.support import SCORES, cells, scores


def test_the_first_budget_where_the_base_is_not_below() -> None:
    ks = [1, 2, 4, 8]
    ours = np.array([[0.6, 0.7, 0.75, 0.8]])
    assert first_crossing(np.array([[0.3, 0.5, 0.75, 0.9]]), ours, ks).tolist() == [4]
    assert first_crossing(np.array([[0.3, 0.5, 0.7, 0.79]]), ours, ks).tolist() == [0]
    assert first_crossing(np.array([[0.6, 0.7, 0.75, 0.8]]), ours, ks).tolist() == [1]


def test_where_both_solve_everything_nothing_crosses() -> None:
    ours, base = np.array([[0.9, 1.0]]), np.array([[0.2, 1.0]])
    assert first_crossing(base, ours, [1, 8]).tolist() == [0]
    assert first_crossing(np.array([[0.2, 1.0]]), np.array([[0.9, 0.98]]), [1, 8]).tolist() == [8]


def test_cells_and_scores_by_hand() -> None:
    base = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    ours = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    counts = cells(base, ours).sum(axis=0)
    assert counts.tolist() == [2, 1, 1, 1]
    found = dict(zip(SCORES, scores(counts[None])[0], strict=True))
    assert found == pytest.approx({"srr": 2 / 3, "ndr": 1 / 3, "sds": 2 * (2 / 9) / 1, "nscr": 0.0})


def test_fewer_samples_than_drawn_are_independent_draws() -> None:
    assert cells(np.array([0.5]), np.array([0.25]))[0].tolist() == [0.125, 0.375, 0.125, 0.375]


@given(st.tuples(*[st.integers(0, 20)] * 4).filter(lambda counts: counts[0] > 0 and counts[2] > 0))
def test_scores_follow_their_definitions(counts: tuple[int, int, int, int]) -> None:
    preserved, shrunk, expanded, _ = counts
    srr, ndr, sds, nscr = scores(np.array([counts], dtype=np.float64))[0]
    assert srr == pytest.approx(preserved / (preserved + shrunk))
    assert ndr == pytest.approx(expanded / (preserved + expanded))
    assert sds == pytest.approx(hmean([srr, ndr]))
    assert nscr == pytest.approx((expanded - shrunk) / (preserved + shrunk + expanded))


def test_scores_without_anything_solved_are_undefined() -> None:
    assert np.isnan(scores(np.array([[0.0, 0.0, 0.0, 5.0]]))).all()
    nothing_kept = scores(np.array([[0.0, 3.0, 0.0, 2.0]]))[0]
    assert nothing_kept[0] == 0.0 and np.isnan(nothing_kept[1]) and nothing_kept[3] == -1.0
