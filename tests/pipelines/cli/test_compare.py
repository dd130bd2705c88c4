"""compare and report on real runs of a toy matrix: arms, cells, several runs, and what cannot be compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.toy_command import ROOT, Command, toy_command

RECIPE = """
name: toy-arms
summary: A matrix of two factors
extends: ./toy-exam.yaml
matrix: {factor: [20, 40]}
stages:
  base: {matrix: none}
  exam-base: {matrix: none}
  train: {with: {factor: "${matrix.factor}"}}
"""


@pytest.fixture(scope="module")
def posttrain(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command line with runs in its store: a matrix, a chain, and a chain with another factor."""
    folder = tmp_path_factory.mktemp("arms")
    command = toy_command(folder / "store")
    parent = ROOT / "tests/pipelines/recipes/toy-exam.yaml"
    (folder / parent.name).write_text(parent.read_text())
    (folder / "toy-arms.yaml").write_text(RECIPE)
    for arguments in (
        [str(folder / "toy-arms.yaml")],
        [str(parent), "--set", "factor=20"],
        [str(parent), "--set", "factor=80"],
    ):
        done = command("run", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return command


def read(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def runs_of(posttrain: Command, recipe: str) -> list[str]:
    """Return the runs of a recipe, the newest first."""
    listed = read(posttrain("list", "runs", "--json"))["runs"]
    return [run["run_id"] for run in listed if run["recipe"] == recipe]


def test_the_arms_of_a_run_are_compared_with_the_first(posttrain: Command) -> None:
    found = read(posttrain("compare", "toy-arms", "--json"))
    assert found["sides"] == ["factor=20", "factor=40"]
    assert {"stage": "train", "name": "factor", "values": [20, 40]} in found["params"]
    moved = {row["metric"]: row for row in found["differences"]}
    assert moved["mark_arts"]["arm"] == "factor=40" and moved["mark_arts"]["against"] == "factor=20"
    values = {row["arm"]: row["value"] for row in found["results"] if row["metric"] == "mark_arts"}
    assert moved["mark_arts"]["value"] == values["factor=40"] - values["factor=20"] > 0
    assert not any("exam-base" in row["model"] or row["model"] == "base" for row in found["results"])
    said = posttrain("compare", "toy-arms").stdout
    assert "Parameters that differ" in said and "factor=40" in said and "minus factor=20" in said


def test_two_cells_are_compared(posttrain: Command) -> None:
    found = read(posttrain("compare", "toy-arms:factor=40", "toy-arms:20", "--json"))
    assert found["sides"] == ["factor=40", "factor=20"]
    assert all(row["value"] <= 0 for row in found["differences"])


def test_a_cell_is_compared_with_another_run(posttrain: Command) -> None:
    newest = runs_of(posttrain, "toy-exam")[0]
    found = read(posttrain("compare", "toy-arms:20", newest, "--json"))
    assert found["sides"][1] == newest and found["sides"][0].endswith(" factor=20")
    assert any(row["arm"] == newest for row in found["differences"])


def test_two_runs_are_compared_in_everything(posttrain: Command) -> None:
    second, first = runs_of(posttrain, "toy-exam")
    found = read(posttrain("compare", first, second, "--json"))
    assert {"stage": "train", "name": "factor", "a": 20, "b": 80} in found["params"]
    assert {row["against"] for row in found["differences"]} == {first}
    said = posttrain("compare", first, second).stdout
    assert "Parameters" in said and "Metrics" in said and f"minus {first}" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "toy-exam"], "has no arms to compare: it has no matrix; name another run"),
        (["compare", "toy-arms:20"], "name a second cell or run to compare it with"),
        (["compare", "toy-arms:factor=3", "toy-arms:20"], "has no cell 'factor=3'"),
        (["compare", "toy-exam:20", "toy-arms:20"], "its recipe has no matrix"),
        (["report", "toy-arms:x", "toy-arms:20"], "has no cell 'x'"),
        (["compare"], "RUN"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_line(posttrain: Command, arguments: list[str], expected: str) -> None:
    done = posttrain(*arguments)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout


def test_the_same_work_has_nothing_to_compare(posttrain: Command) -> None:
    said = posttrain("compare", "toy-arms:20", "toy-arms:20")
    assert said.returncode == 0 and "No parameter differs." in said.stdout and "did the same work" in said.stdout


def test_several_runs_are_one_report(posttrain: Command, tmp_path: Path) -> None:
    second, first = runs_of(posttrain, "toy-exam")
    target = tmp_path / "both.html"
    told = read(posttrain("report", first, second, "--output", str(target), "--json"))
    assert (told["sides"], told["page"]) == ([first, second], str(target))
    page = target.read_text()
    assert "Mark in the final exam of each run" in page and f"<h3>Minus {first}</h3>" in page
    assert page.count(f'<a href="#lineage-of-{first}">') == 1 and f'<section id="lineage-of-{second}">' in page
    assert Path(posttrain("report", first, second).stdout.strip()).read_text() == page, "the same page again"


def test_the_report_of_a_matrix_has_its_arms(posttrain: Command) -> None:
    page = Path(posttrain("report", "toy-arms").stdout.strip()).read_text()
    assert "of each arm of the matrix over factor" in page and '<span class="named">factor=40</span>' in page
    assert "Lines join the models" not in page
