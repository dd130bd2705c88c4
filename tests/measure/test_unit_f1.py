"""Metric unit_f1 by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.contract.operators import OperatorSpec
from components.measure.harness.context import MeasureContext
from components.measure.intervals import Bootstrap
from components.measure.slots import METRIC
from tests.measure.test_outcomes import written


@pytest.mark.parametrize(
    ("gold", "critiques", "expected"),
    [
        ("1 sign, 2 slip", ["<answer>1 sign, 2 slip"], (1, 1, 1)),
        ("1 sign, 2 slip", ["<answer>1 sign", "<answer>3 term"], (0.5, 0.25, 1 / 3)),
        ("1 sign", ["<answer>none", "<answer>1 sign, 2 slip, 3 slip, 4 slip"], (0.625, 0.5, 0.2)),
        ("none", ["<answer>none", "<answer>1 sign", "", "<answer>none"], (0.5, 0.75, 0.5)),
    ],
)
def test_values(gold: str, critiques: list[str], expected: tuple[float, float, float]) -> None:
    outcome = written("7" * len(critiques), "w" * len(critiques))
    outcome = replace(outcome, item=outcome.item.model_copy(update={"answer": gold}), responses=tuple(critiques))
    found = OperatorSpec(name="unit_f1").resolve(METRIC)([outcome], MeasureContext(bootstrap=Bootstrap(300, 0.95, 0)))
    values = tuple(found[name][0] for name in ("unit_precision", "unit_recall", "unit_f1"))
    assert values == pytest.approx(expected)
