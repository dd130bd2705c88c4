"""Sides: which cell a text names, and how runs and cells become the arms of one design."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.runtime.costs.attempts import Attempt
from pipelines.plan.costs import RunCost, StageCost
from pipelines.report.page import render_page
from pipelines.report.several.page import render_sides
from pipelines.report.several.sides import Side, arms_of, cell_of, combine
from tests.pipelines.report.arms.test_arm_pages import HOSTILE, section
from tests.pipelines.report.made import MadeRun


def run_of(folder: Path, run_id: str, *counts: int, axis: str = "", params: dict[str, object] | None = None) -> MadeRun:
    """Return a run whose base is the same work in all runs, with a model of its own for each count."""
    run = MadeRun(folder, run_id)
    run.train([3.0, 2.0], group="base", fingerprint="base")
    run.evaluate({"sums": [0, 1]}, group="eval-base", source="base", fingerprint="eval-base")
    for count in counts:
        labels = {axis: count} if axis else {}
        made = run.train([3.0, 2.0], labels, source="base", params=params)
        run.evaluate({"sums": [count, count]}, labels, source=made.name)
    return run


def cost_of(seconds: dict[str, float]) -> RunCost:
    """Return the cost of stages that took these seconds of one core."""
    holds = {"pool": "cpu", "nodes": 1, "processes": 1, "gpus": 0, "cpus": 1, "cpu_seconds": 1.0}
    fixed = {"run_id": "r", "attempt": "1", "started": datetime(2026, 1, 1, tzinfo=UTC), "end": "succeeded"}
    tries = {
        name: Attempt.model_validate({**fixed, **holds, "stage": name, "seconds": s}) for name, s in seconds.items()
    }
    return RunCost({name: StageCost(name, attempts=(attempt,)) for name, attempt in tries.items()})


@pytest.mark.parametrize("text", ["rate=2", "2", "[rate=2]", "sft-rate-2", " rate = 2 "])
def test_a_cell_is_named_by_values_or_by_a_stage(tmp_path: Path, text: str) -> None:
    side = cell_of(run_of(tmp_path, "one", 1, 2, axis="rate").data, text)
    assert side.cell == {"rate": "2"}
    assert [stage.name for stage in side.stages] == ["base", "eval-base", "sft-rate-2", "evaluate-rate-2"]
    assert not any(stage.labels for stage in side.stages) and side.stages[-1].step == "evaluate"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate=3", "run one has no cell 'rate=3'"),
        ("rat=2", "did you mean 'rate=2'?"),
        ("", "run one has no cell ''"),
        ("nothing", "known: rate=1, rate=2"),
    ],
)
def test_a_cell_that_is_not_there_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        cell_of(run_of(tmp_path, "one", 1, 2, axis="rate").data, text)
    assert expected in str(refused.value)


def test_a_run_without_a_matrix_has_no_cells_and_no_arms(tmp_path: Path) -> None:
    data = run_of(tmp_path, "one", 1).data
    with pytest.raises(InputError, match="its recipe has no matrix"):
        cell_of(data, "rate=1")
    with pytest.raises(InputError, match="no arms to compare: it has no matrix"):
        arms_of(data)
    with pytest.raises(InputError, match="only seeds, which are pooled"):
        arms_of(run_of(tmp_path, "two", 1, 2, axis="seed").data)


def test_the_baseline_comes_first(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for arm in ("dapo", "baseline", "grpo"):
        run.evaluate({"sums": [1]}, {"arm": arm})
    assert [side.cell["arm"] for side in arms_of(run.data)] == ["baseline", "dapo", "grpo"]


def test_runs_become_arms_that_share_what_is_the_same_work(tmp_path: Path) -> None:
    sides = [Side(run_of(tmp_path, run_id, count).data, {}) for run_id, count in (("one", 1), ("two", 3))]
    stages = combine(sides).stages
    assert [(stage.name, stage.arm) for stage in stages] == [
        ("base", {}),
        ("eval-base", {}),
        *((name, {"run": run_id}) for name in ("sft", "evaluate") for run_id in ("one", "two")),
    ]


def test_an_axis_called_arm_stays_beside_the_cells_that_are_compared(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for rate in (1, 2):
        for arm in "ab":
            run.evaluate({"sums": [rate]}, {"arm": arm, "rate": rate})
    sides = [cell_of(run.data, f"rate={rate}") for rate in (1, 2)]
    assert [stage.arm for stage in combine(sides).stages] == [
        {"cell": f"rate={rate}", "arm": arm} for arm in "ab" for rate in (1, 2)
    ]


def test_several_runs_are_one_page(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, name, count, params={"steps": count}) for name, count in (("one", 1), ("two", 3))]
    page = render_sides([Side(run.data, {}) for run in runs])
    skills = section(page, "Skills after each stage")
    assert "Held-out pass@1 of each run" in skills and "<h3>Minus one</h3>" in skills
    assert '<span class="named">two</span><span class="amount">+50.0' in skills
    assert "<tr><td>two</td><td>3</td></tr>" in section(page, "What differs")
    assert section(page, "Training").count("<svg class=") == 2, "the base is shown once, both sft in one chart"
    assert '<a href="#lineage-of-two">' in page and '<section id="lineage-of-two">' in page


def test_runs_are_shown_as_text_whatever_their_names(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, name, 1) for name in ("one", HOSTILE)]
    runs[1].recipe = HOSTILE
    assert "<script" not in render_sides([Side(run.data, {}) for run in runs])


def test_matrices_of_two_runs_are_arms_by_run_and_value(tmp_path: Path) -> None:
    sides = [Side(run_of(tmp_path, name, 1, 2, axis="rate").data, {}) for name in ("one", "two")]
    skills = section(render_sides(sides), "Skills after each stage")
    assert "matrix over run and rate" in skills and '<span class="named">two, rate=2</span>' in skills


def test_each_cell_of_a_matrix_is_compared_with_the_same_cell_of_the_first_run(tmp_path: Path) -> None:
    runs = {"one": (1, 2), "two": (1, 2), "three": (2, 3)}  # the third lacks the first cell, and has one of its own
    sides = [Side(run_of(tmp_path, name, *rates, axis="rate").data, {}) for name, rates in runs.items()]
    better = next(stage for stage in sides[1].data.stages if stage.name == "evaluate-rate-2")
    rows = (better.files["metrics"] / "passrates.jsonl").read_text()
    changed = rows.replace('"num_right": 2', '"num_right": 4').replace('"num_wrong": 2', '"num_wrong": 0')
    (better.files["metrics"] / "passrates.jsonl").write_text(changed)
    skills = section(render_sides(sides), "Skills after each stage")
    minus = skills[skills.index("<h3>Minus one, each cell minus the same cell</h3>") : skills.index("Along the recipe")]
    told = re.findall(r'<span class="named">(.*?)</span><span class="amount">([+-]?[\d.]+)', minus)
    assert told == [("two, rate=1", "+0.0"), ("two, rate=2", "+50.0"), ("three, rate=2", "+0.0")]


def test_the_page_of_several_runs_says_what_each_of_them_cost(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, name, 1).data for name in ("one", "two")]
    for hours, run in enumerate(runs, start=1):
        run.cost = cost_of({"sft": 3600.0 * hours})
    cost = section(render_sides([Side(run, {}) for run in runs]), "Cost")
    assert re.findall(r"<tr><td>(.*?)</td><td class=number>(\d+)</td><td class=number>(.*?)</td>", cost) == [
        ("one", "1", "1.00 h"),
        ("two", "1", "2.00 h"),
    ]


def test_cells_of_one_run_cost_what_is_theirs_and_share_the_rest(tmp_path: Path) -> None:
    data = run_of(tmp_path, "one", 1, 2, axis="rate").data
    data.cost = cost_of({"base": 7200.0, "sft-rate-1": 3600.0, "sft-rate-2": 1800.0})
    own, shared = cell_of(data, "rate=2").costs
    assert (own.amount.hours, shared.amount.hours) == (0.5, 2.0)
    page = section(render_page(data), "Cost")
    assert "<h3>By arm</h3>" in page and "<td>shared by arms</td><td class=number>1</td><td class=number>2.00 h" in page
