"""Diagnostic label_f1: by hand, and by sklearn on whatever a classifier wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from components.contract.operators import OperatorRefused, OperatorSpec
from components.measure.outcomes import ItemOutcomes
from components.measure.slots import DIAGNOSTIC
from tests.measure.test_diagnostics import diagnose, value
from tests.measure.test_outcomes import written


def said(gold: str, answers: str, failed: str = "") -> ItemOutcomes:
    kinds = failed or "".join("r" if answer == gold else "w" for answer in answers)
    plain = written(answers, kinds)
    return replace(plain, item=plain.item.model_copy(update={"answer": gold}))


def test_by_hand() -> None:
    view = diagnose("label_f1", [said("y", "yyn"), said("n", "ynn"), said("y", "-")])
    # named y: 3, of the class: 4, both: 2
    assert value(view, "label_precision_A") == pytest.approx(2 / 3)
    assert value(view, "label_recall_A") == pytest.approx(2 / 4)
    assert value(view, "label_f1_A") == pytest.approx(4 / 7)
    other = diagnose("label_f1", [said("y", "yyn"), said("n", "ynn")], positive=" N ")
    assert value(other, "label_f1_A") == pytest.approx(2 * 2 / (3 + 3))


def test_failed_verifications_are_in_no_number() -> None:
    view = diagnose("label_f1", [said("y", "yyn", "rff")])
    assert value(view, "label_recall_A") == value(view, "label_f1_A") == 1


def test_what_is_undefined_is_left_out() -> None:
    assert not diagnose("label_f1", [said("n", "nn")]).metrics
    only = diagnose("label_f1", [said("n", "yn")]).metrics
    assert set(only) == {"label_precision_A", "label_f1_A"}
    missed = diagnose("label_f1", [said("y", "nn")])
    assert "label_precision_A" not in missed.metrics and value(missed, "label_f1_A") == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("yn"), st.text("yn-", min_size=1, max_size=4)), min_size=1, max_size=8))
def test_as_sklearn_counts(rows: list[tuple[str, str]]) -> None:
    gold = [label == "y" for label, answers in rows for _ in answers]
    guesses = [answer == "y" for _, answers in rows for answer in answers]
    expected = precision_recall_fscore_support(gold, guesses, average="binary", zero_division=float("nan"))
    view = diagnose("label_f1", [said(label, answers) for label, answers in rows])
    for name, number in zip(("precision", "recall"), expected, strict=False):
        assert (f"label_{name}_A" in view.metrics) is (number == number)
        if number == number:
            assert value(view, f"label_{name}_A") == pytest.approx(number)
    if any(gold) or any(guesses):
        hits = sum(one and other for one, other in zip(gold, guesses, strict=True))
        assert value(view, "label_f1_A") == pytest.approx(2 * hits / (sum(gold) + sum(guesses)))


def test_an_empty_label_is_refused() -> None:
    with pytest.raises(OperatorRefused, match="positive"):
        OperatorSpec.model_validate({"name": "label_f1", "positive": ""}).resolve(DIAGNOSTIC)
