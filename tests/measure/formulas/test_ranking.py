"""Calibration and discrimination of stated confidence: by hand, against sklearn, and with weights as repetitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from components.measure.calibration import calibrate
from components.measure.formulas.ranking import auroc, calibration_error, equal_mass, equal_width, weighted_mean

STATED = st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.integers(0, 3)), min_size=2, max_size=30)


def columns(stated: list[tuple[int, bool, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence, outcome and weight."""
    confidence, right, weight = (np.array(column, dtype=np.float64) for column in zip(*stated, strict=True))
    return confidence / 10, right, weight


def test_auroc_by_hand() -> None:
    confidence, right = np.array([0.9, 0.8, 0.8, 0.1]), np.array([1.0, 1.0, 0.0, 0.0])
    # pairs of right and wrong: .9 > .8, .9 > .1, .8 = .8, .8 > .1
    assert auroc(confidence, right)(np.ones((1, 4)))[0] == pytest.approx(3.5 / 4)
    assert np.isnan(auroc(confidence, np.ones(4))(np.ones((1, 4)))[0])


@given(STATED)
def test_auroc_and_brier_are_those_of_sklearn_with_weights(stated: list[tuple[int, bool, int]]) -> None:
    confidence, right, weight = columns(stated)
    assume(weight[right == 1].sum() and weight[right == 0].sum())
    found = auroc(confidence, right)(np.stack([np.ones(len(right)), weight]))
    assert found[1] == pytest.approx(roc_auc_score(right, confidence, sample_weight=weight))
    assert found[0] == pytest.approx(roc_auc_score(right, confidence))
    brier = weighted_mean((confidence - right) ** 2)(weight[None])[0]
    assert brier == pytest.approx(brier_score_loss(right, confidence, sample_weight=weight))


@given(STATED)
def test_the_calibration_error_is_that_of_the_repeated_predictions(stated: list[tuple[int, bool, int]]) -> None:
    confidence, right, weight = columns(stated)
    assume(weight.sum())
    repeated = np.repeat(np.arange(len(right)), weight.astype(int))
    known = calibrate(confidence[repeated].tolist(), right[repeated].astype(bool).tolist(), num_bins=5).ece
    found = calibration_error(confidence, right, equal_width(confidence, 5), 5)(weight[None])[0]
    assert found == pytest.approx(known)


def test_bins_of_equal_mass_by_hand() -> None:
    confidence = np.array([0.1, 0.2, 0.3, 0.9, 0.9, 0.9])
    assert equal_mass(confidence, 2).tolist() == [0, 0, 0, 1, 1, 1]
    assert equal_mass(np.full(6, 0.7), 3).tolist() == [1] * 6  # ties share a bin
    right = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    # bin of three: confidence .2, right 1/3; bin of three: confidence .9, all right
    found = calibration_error(confidence, right, equal_mass(confidence, 2), 2)(np.ones((1, 6)))[0]
    assert found == pytest.approx((1 / 3 - 0.2) / 2 + 0.1 / 2)
