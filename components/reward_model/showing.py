"""What the report shows of a reward model: its measures as a table, and its calibration as a chart."""

from __future__ import annotations

import numpy as np

from components.measure.formulas.ranking import equal_width
from components.measure.harness.views import Cell, Chart, Line, View, ViewTable
from components.reward_model.measures import NUM_BINS, Found, Predictions

WORDS = {
    "pair_accuracy": "pairs in the right order, ties half",
    "margin_mean": "mean difference of the better and the worse response",
    "auroc": "AUROC: a good one has a higher score than a bad one",
    "accuracy": "good ones and bad ones told apart at one half",
    "calibration_error": "expected calibration error",
    "brier": "Brier score",
    "squared_error": "mean squared error",
}


def view_of(found: Found, where: str, num_tasks: int) -> View:
    """Return the view of the measures; `where` says of which rows they are."""
    rows: list[list[Cell]] = [
        [WORDS.get(name, name.replace("_", " ")), interval]
        for name, interval in found.measures.items()
        if np.isfinite(interval.value)
    ]
    table = ViewTable("Measures", ["measure", "value"], rows)
    text = f"Of {num_tasks} tasks {where}; 95 % intervals by the bootstrap over tasks."
    return View(text, tables=(table,), charts=_charts(found.predictions))


def _charts(found: Predictions | None) -> tuple[Chart, ...]:
    if found is None:
        return ()
    member = equal_width(found.chance, NUM_BINS)
    inside = [member == number for number in range(NUM_BINS)]
    points = [(float(found.chance[rows].mean()), float(found.true[rows].mean())) for rows in inside if rows.any()]
    line = Line("the model", points, marks=True)
    return (
        Chart("Calibration", (line,), "chance that the model gives", "share that came true", diagonal="calibrated"),
    )
