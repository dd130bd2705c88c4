"""Curves of arms: seeds pooled, rounds one after the other."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from components.contract.display import Curves
from pipelines.report.arms.design import Design
from pipelines.report.arms.histories import histories
from pipelines.report.curves import curves
from tests.pipelines.report.made import MadeRun

SECTION = Curves(title="Training", columns={"loss": "loss"})


def drawn(run: MadeRun) -> str:
    return str(curves(SECTION, run.stages, Design.of_stages(run.stages)))


def test_seeds_are_a_mean_with_a_t_interval(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for seed, losses in enumerate([[4.0, 2.0, 1.0], [6.0, 2.0]]):
        run.train(losses, {"seed": seed})
    (history,) = histories(SECTION, run.stages)
    line = history.line("step", "loss")
    assert line.mean == [(1.0, 5.0), (2.0, 2.0)], "the third step is not one of both"
    assert line.band[0] == pytest.approx((5 - 12.706, 5 + 12.706), abs=1e-3) and line.band[1] == (2.0, 2.0)
    page = drawn(run)
    assert page.count('class="band c0"') == 1 and page.count("line c0 thin") == 2
    assert (
        "Means over 2 seeds" in page
        and "<title>mean of 2 seeds</title>" in page
        and "thin lines are single seeds" in page
    )


def test_arms_are_lines_of_one_chart(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for rate in (0.1, 0.2):
        run.train([3.0, 2.0], {"learning_rate": rate})
    page = drawn(run)
    assert page.count("<svg") == 1 and [page.count(f'class="line c{colour}"') for colour in (0, 1, 2)] == [1, 1, 0]
    assert "learning_rate=0.1" in page and "learning_rate=0.2" in page


def test_rounds_of_a_repeat_follow_one_another(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    for number, losses in enumerate([[9.0, 8.0, 7.0], [6.0, 5.0]], start=1):
        run.train(losses, {"round": number}, group="loop.sft", name=f"loop-{number}-sft")
    (history,) = histories(SECTION, run.stages)
    assert history.line("step", "loss").mean == [(1, 9.0), (2, 8.0), (3, 7.0), (4, 6.0), (5, 5.0)]
    assert history.ends("step") == [3.0]
    assert "2 rounds one after the other" in drawn(run) and 'class="grid dotted"' in drawn(run)


def test_values_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    run.train([3.0, math.nan, math.inf, 2.0])
    (history,) = histories(SECTION, run.stages)
    assert history.line("step", "loss").mean == [(1, 3.0), (4, 2.0)]
    assert "nan" not in drawn(run) and "inf" not in drawn(run)
