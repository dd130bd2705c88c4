"""Forks in the report: which stages are pairs, what is equal, and differences against values made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipelines.report.collect import RunData
from pipelines.report.forks import fork_pairs, fork_section
from pipelines.report.page import render_page
from pipelines.report.several.page import render_sides
from pipelines.report.several.sides import Side
from tests.pipelines.report.made import MadeRun


def forked(folder: Path, before: list[float], now: list[float], step: int, run_id: str = "fork-1") -> list[RunData]:
    """Return a run and its fork, by the losses of their histories."""
    parent, child = MadeRun(folder, "parent-1"), MadeRun(folder, run_id)
    parent.train(before, fingerprint="a" * 64, params={"optimizer": {"peak_learning_rate": 1}})
    stage = child.train(now, params={"optimizer": {"peak_learning_rate": 2}})
    assert stage.entry is not None
    stage.entry["fork"] = {
        "run_id": "parent-1", "stage": "sft", "step": step, "fingerprint": "a" * 64, "seconds": 7.0,
    }  # fmt: skip
    data = child.data
    data.run["fork"] = {"run": "parent-1", "stage": "sft", "step": step}
    return [parent.data, replace(data, forked=parent.data)]


def test_steps_are_paired_from_the_fork_on(tmp_path: Path) -> None:
    (pair,) = fork_pairs(*forked(tmp_path, [5, 4, 3, 2], [5, 4, 2.5, 1], 2))
    assert (pair.sides, pair.step, pair.shared()) == (("parent-1", "fork-1"), 2, (2, 2))
    (loss,) = pair.moved()
    assert (loss.before, loss.now, loss.difference, loss.low) == (2.5, 1.75, -0.75, None)
    assert loss.steps == [(3, -0.5), (4, -1.0)]


def test_the_fork_may_be_named_first(tmp_path: Path) -> None:
    parent, child = forked(tmp_path, [5, 4, 3], [5, 4, 2], 2)
    (pair,) = fork_pairs(child, parent)
    assert pair.sides == ("parent-1", "fork-1")
    assert pair.moved()[0].difference == -1


def test_two_forks_of_one_step_are_a_pair(tmp_path: Path) -> None:
    _, one = forked(tmp_path / "1", [5, 4, 3], [5, 4, 2], 2, "fork-1")
    _, two = forked(tmp_path / "2", [5, 4, 3], [5, 4, 1], 2, "fork-2")
    (pair,) = fork_pairs(one, two)
    assert pair.moved()[0].difference == -1
    assert not list(fork_pairs(one, one))


def test_what_is_not_equal_before_the_fork_is_counted(tmp_path: Path) -> None:
    (pair,) = fork_pairs(*forked(tmp_path, [5, 4, 3], [5, 4.5, 2], 2))
    assert pair.shared() == (1, 2)


def test_the_interval_is_of_ten_batch_means(tmp_path: Path) -> None:
    before, noise = [1.0] * 43, np.random.default_rng(0).normal(size=40)
    (pair,) = fork_pairs(*forked(tmp_path, before, [1.0] * 3 + list(1.0 + noise), 3))
    (loss,) = pair.moved()
    means = noise.reshape(10, 4).mean(axis=1)
    low, high = stats.t.interval(0.95, 9, means.mean(), stats.sem(means))
    assert (loss.low, loss.high) == pytest.approx((low, high))


def test_a_page_shows_a_fork_beside_the_run_that_it_is_of(tmp_path: Path) -> None:
    parent, child = forked(tmp_path, [5, 4, 3, 2], [5, 4, 2.5, 1], 2)
    page = render_page(child)
    assert "Of run parent-1, from sft@2 on" in page
    assert "These steps took 7 s, and were not done again." in page
    assert "Before the fork all 2 rows of the history are equal in every number." in page
    assert "loss: difference by step" in page
    assert "sft: optimizer.peak_learning_rate" in page
    several = render_sides([Side(parent, {}), Side(child, {})])
    assert "From the fork on" in several and "loss: difference by step" in several
    assert "Fork</h2>" not in render_page(parent)


def test_a_forked_run_that_is_gone_is_said(tmp_path: Path) -> None:
    _, child = forked(tmp_path, [5, 4, 3], [5, 4, 2], 2)
    section = fork_section(replace(child, forked=None))
    assert "Run parent-1 is gone from the store" in str(section.parts)
