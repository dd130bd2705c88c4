"""Metrics in users' files: what they are given, what they may return, and the line of a mistake."""

from __future__ import annotations

import numpy as np
import pytest

from components.contract.errors import OperatorFailed
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operators import OperatorSpec
from components.measure.chosen import column_metrics, metric_columns
from components.measure.chosen_params import ChosenParams, chosen_metrics
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.slots import METRIC
from tests.measure.test_outcomes import written

CONTEXT = MeasureContext(bootstrap=Bootstrap(200, 0.95, 0))
OUTCOMES = {"A": [written("778", "rrw"), written("9", "w")], "B": [written("7", "r", domain="B")]}


def spec(body: str, signature: str = "responses, outcomes, **columns") -> OperatorSpec:
    code = OperatorCode(file="mine.py", files={"mine.py": f"def short({signature}):\n    {body}\n"})
    library.keep([code])
    return OperatorSpec(name=code.name("short")).in_slot(METRIC)


def test_it_gets_the_responses_of_a_prompt_with_their_outcomes_and_columns() -> None:
    body = "return len(responses) * outcomes.count('right') * (columns['domain'] == 'A')"
    columns = metric_columns([spec(body)], OUTCOMES, CONTEXT)
    assert columns == {"A": {"short": [6.0, 0.0]}, "B": {"short": [0.0]}}
    metrics = column_metrics(columns, OUTCOMES, CONTEXT)
    assert metrics["short_A"].value == 3.0 and metrics["short"].value == 1.5  # type: ignore[union-attr]
    assert {"short", "short_<domain>", "delta_short_<domain>"} <= set(
        chosen_metrics(ChosenParams(metrics=(spec(body),)))
    )


def test_none_is_no_value_and_numpy_is_a_number() -> None:
    body = "return __import__('numpy').float32(0.5) if len(responses) > 1 else None"
    columns = metric_columns([spec(body)], OUTCOMES, CONTEXT)
    assert columns == {"A": {"short": [0.5, None]}, "B": {"short": [None]}}
    metrics = column_metrics(columns, OUTCOMES, CONTEXT)
    assert metrics["short_A"].n == 1 and "short_B" not in metrics and "short" not in metrics  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 'high'", "returned 'high' as 'short' of prompt 0, expected a finite number or None"),
        ("return float('nan')", "returned nan as 'short'"),
        ("return 1 / 0", "raised ZeroDivisionError: division by zero for prompt A-778-rrw, at mine.py:2"),
        ("return unit", "raised NameError"),
    ],
)
def test_what_is_no_number_stops_with_its_line(body: str, said: str) -> None:
    with pytest.raises(OperatorFailed, match=said):
        metric_columns([spec(body)], OUTCOMES, CONTEXT)


def test_means_over_prompts_are_those_of_numpy() -> None:
    values = [0.25, 0.75, 0.5]
    outcomes = {"A": [written("7", "r"), written("8", "r"), written("9", "r")]}
    found = column_metrics({"A": {"x": values}}, outcomes, CONTEXT)["x_A"]
    assert found.value == pytest.approx(np.mean(values)) and found.low < found.value < found.high  # type: ignore[union-attr]
