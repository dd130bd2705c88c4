"""Calibration, diversity, metric names, ledger files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from components.contract.errors import InputError
from components.measure.calibration import calibrate, majority_confidence
from components.measure.formulas.diversity import distinct_n, pieces, sample_entropy, unique_share
from components.measure.intervals import Interval
from components.measure.ledger import PassRateRow, read_ledger, write_ledger
from components.measure.metrics import check_domains, metric_key, read_metrics, write_metrics


def test_calibration_by_hand() -> None:
    found = calibrate([0.9, 0.8, 0.3, 0.1], [True, False, False, False], num_bins=2)
    # bin (0, 0.5]: confidence 0.2, accuracy 0; bin (0.5, 1]: confidence 0.85, accuracy 0.5
    assert found.ece == pytest.approx(0.5 * 0.2 + 0.5 * 0.35)
    assert found.brier == pytest.approx((0.01 + 0.64 + 0.09 + 0.01) / 4)
    assert found.overconfidence == pytest.approx(0.525 - 0.25)
    assert [(b.count, b.accuracy) for b in found.bins] == [(2, 0.0), (2, 0.5)]


def test_bin_edges_belong_to_the_lower_bin() -> None:
    found = calibrate([0.0, 0.5, 1.0], [True, True, True], num_bins=2)
    assert [b.count for b in found.bins] == [2, 1]


def test_a_calibrated_predictor_has_a_small_error() -> None:
    generator = np.random.default_rng(0)
    confidence = generator.random(20_000)
    assert calibrate(confidence, generator.random(20_000) < confidence).ece < 0.02


@pytest.mark.parametrize("confidences", [[], [1.1], [-0.1]])
def test_calibration_refuses_what_is_no_confidence(confidences: list[float]) -> None:
    with pytest.raises(InputError):
        calibrate(confidences, [True] * len(confidences))


def test_majority_confidence() -> None:
    assert majority_confidence(["7", "7", "8", None], [True, True, False, False]) == (0.5, True)
    assert majority_confidence(["8", "7"], [False, True]) == (0.5, False)  # the first of tied answers
    assert majority_confidence([None], [False]) is None
    assert majority_confidence([], []) is None


def test_diversity_by_hand() -> None:
    assert pieces("<think>12+3=15 abc") == ["<", "think", ">", "12", "+", "3", "=", "15", "abc"]
    assert distinct_n(["abab", "ab"], 2) == pytest.approx(2 / 4)  # ab ba ab, ab
    assert distinct_n(["a"], 2) is None
    assert unique_share(["7", "7", None]) == pytest.approx(2 / 3)
    assert unique_share([]) is None
    assert sample_entropy(["7", "7", "8", "8"]) == pytest.approx(math.log(2))
    assert sample_entropy(list("abcde")) == pytest.approx(math.log(5))  # the most that five values can have
    assert (sample_entropy(["7"] * 3), sample_entropy([])) == (0.0, None)


def test_metric_names_suit_expressions() -> None:
    assert metric_key("pass_at_1", "gsm8k (test)/en") == "pass_at_1_gsm8k_test_en"
    with pytest.raises(InputError, match=r"a/b.*a b"):
        check_domains(["a/b", "a b"])


def test_metrics_round_trip(tmp_path: Path) -> None:
    write_metrics(tmp_path, {"b": 3.0, "a": Interval(0.5, 0.4, 0.6, 9)})
    assert read_metrics(tmp_path) == {"a": {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9}, "b": {"value": 3.0}}
    with pytest.raises(InputError, match=r"no metrics\.json"):
        read_metrics(tmp_path / "other")


def test_ledger_round_trip(tmp_path: Path) -> None:
    row = PassRateRow(prompt_id="p", domain="A", num_samples=4, num_right=1, num_wrong=2, num_failed=1)
    unverified = PassRateRow(prompt_id="q", domain="A", num_samples=1, num_right=0, num_wrong=0, num_failed=1)
    write_ledger(tmp_path, [row, unverified])
    assert read_ledger(tmp_path) == {"A": {"p": row, "q": unverified}}
    assert row.value == pytest.approx(1 / 3) and math.isnan(unverified.value)


def test_a_broken_ledger_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="evaluate stage"):
        read_ledger(tmp_path)
    (tmp_path / "passrates.jsonl").write_text('{"prompt_id": "p"}\n')
    with pytest.raises(InputError, match="jsonl:1"):
        read_ledger(tmp_path)
