"""Rule elbow of select: the formula, the choice, and what it needs."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.select.choose import choose
from components.select.component import COMPONENT
from components.select.elbow import elbow
from components.select.params import SelectParams
from components.select.scores import Scores
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import run_stage, write_jsonl

NEED = ("pass_at_1", "A")


def test_the_elbow_by_hand() -> None:
    """Gains .2 .5 .6 of .6 at 1, 2, 6 of 6 nats: .33 - .17, .83 - .33, 1 - 1."""
    assert elbow([0.2, 0.5, 0.6], [1.0, 2.0, 6.0]) == 1
    assert elbow([0.1, 0.2, 0.3], [1.0, 2.0, 3.0]) == 0, "a straight line has none: the earliest"
    assert elbow([-0.1, 0.0], [1.0, 2.0]) is None and elbow([0.1], [0.0]) is None and elbow([], []) is None


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 50)), min_size=1, max_size=12))
def test_the_elbow_lies_farthest_above_the_chord(points: list[tuple[float, float]]) -> None:
    """The reference: distance from the line through (0, 0) and (farthest, best), by the cross product."""
    gains, distances = [gain for gain, _ in points], [distance for _, distance in points]
    best, farthest = max(gains), max(distances)
    found = elbow(gains, distances)
    if best <= 1e-6 or farthest <= 1e-6:
        return
    assert found is not None
    above = [(farthest * gain - best * distance) / math.hypot(farthest, best) for gain, distance in points]
    assert above[found] == pytest.approx(max(above), abs=1e-9)


@given(rate=st.floats(0.2, 4.0), count=st.integers(8, 40))
def test_the_elbow_of_a_saturating_curve_is_where_its_slope_is_that_of_the_chord(rate: float, count: int) -> None:
    distances = [5.0 * place / count for place in range(1, count + 1)]
    gains = [1 - math.exp(-rate * distance) for distance in distances]
    slope = gains[-1] / distances[-1]
    where = math.log(rate / slope) / rate
    found = elbow(gains, distances)
    assert found is not None and abs(distances[found] - where) <= 5.0 / count + 1e-9


def model(name: str, value: float, divergence: float | None = None) -> Scores:
    return Scores(name, {NEED: np.full(30, value)}, divergence=divergence)


def test_the_rule_takes_the_elbow_of_the_eligible_in_the_place_of_the_best() -> None:
    candidates = [model("a", 0.5, 1.0), model("b", 0.8, 2.0), model("c", 0.9, 9.0)]
    base = model("base", 0.3)
    given = {"objective": {"domain": "A"}, "bootstrap_samples": 100}
    plain = choose(candidates, base, SelectParams.model_validate(given), ["A"], seed=0)
    bent = choose(candidates, base, SelectParams.model_validate({**given, "rule": "elbow"}), ["A"], seed=0)
    assert (plain.chosen, bent.chosen) == (2, 1)
    assert bent.reason == "the elbow of the objective over the divergence from the baseline, at 2 nats"
    assert [entry.status for entry in bent.judged] == ["worse", "chosen", "tied"]
    only = {**given, "rule": "elbow", "constraints": [{"domain": "A", "min_value": 0.85}]}
    assert choose(candidates, base, SelectParams.model_validate(only), ["A"], seed=0).chosen == 2
    worse = [model("a", 0.2, 1.0), model("b", 0.1, 2.0)]
    assert choose(worse, base, SelectParams.model_validate({**given, "rule": "elbow"}), ["A"], seed=0).chosen == 0
    small = {**given, "rule": "elbow", "objective": {"domain": "A", "minimise": True}}
    falling = [model("a", 0.15, 1.0), model("b", 0.1, 9.0)]
    assert choose(falling, base, SelectParams.model_validate(small), ["A"], seed=0).chosen == 0


def test_other_temperatures_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="rule elbow: the divergence is that of responses") as refused:
        SelectParams.model_validate({"rule": "elbow", "temperature": 0.5})
    assert "temperature 1" in str(refused.value)


def run_elbow(folder: Path, *, baseline: bool = True) -> Any:
    models = toy_models()
    for step, source in ((10, models.both), (20, models.forgetful)):
        shutil.copytree(source, folder / "checkpoints" / f"step-{step:06d}")
    index = [{"step": step, "path": f"step-{step:06d}"} for step in (10, 20)]
    (folder / "checkpoints" / "index.json").write_text(json.dumps(index))
    inputs: dict[str, Any] = {
        "checkpoints": folder / "checkpoints",
        "dataset": write_jsonl(folder / "dev", prompt_rows("copy", "flip")),
    }
    params = {"num_samples": 4, "max_new_tokens": 5, "bootstrap_samples": 100, "rule": "elbow"}
    start = {"baseline": models.fresh} if baseline else {}
    return run_stage(COMPONENT, folder / "run", params=params, inputs=inputs | start)


def test_the_stage_measures_divergence_from_the_baseline(tmp_path: Path) -> None:
    finished = run_elbow(tmp_path)
    report = json.loads((finished.outputs["report"] / "selection.json").read_text())
    assert report["chosen"] == "test.checkpoints:step-000010" and report["reason"].startswith("the elbow of")
    found = [row["divergence"] for row in report["candidates"]]
    assert min(found) > 1 and finished.metrics["divergence"] == found[0]


def test_a_missing_baseline_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rule elbow needs input 'baseline'") as refused:
        run_elbow(tmp_path, baseline=False)
    assert "\n" not in str(refused.value)
