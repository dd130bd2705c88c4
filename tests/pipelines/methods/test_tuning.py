"""`posttrain reproduce --tune` on a toy claim: the same grid for every arm, chosen by one rule, then frozen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from pipelines.methods.results import read_tuned, tuned_path
from pipelines.methods.tuning import Tuned
from pipelines.recipe.hallmark_words import TuningWords
from tests.pipelines.cli.test_commands import Command, posttrain, read

__all__ = ["posttrain"]
Toy = Callable[..., subprocess.CompletedProcess[str]]
RECIPE = """
# Each arm's number is its start times its factor; whoever comes nearest to 100 is best.
name: toy-tuned
params: {least: 8}
matrix: {seed: [1, 2, 3, 4, 5], arm: {method: {factor: 1}, baseline: {factor: 1}}}
stages:
  start: {uses: toy-train, matrix: {seed: none, arm: none}, with: {factor: "${params.least}"}}
  slow: {uses: toy-train, matrix: {seed: none, arm: none}, with: {factor: 20}}
  train: {uses: toy-train, in: {model: start.model}, with: "${matrix.arm}"}
  score: {uses: toy-score, in: {models: [train.model, slow.model]}}
hallmark:
  claim: The tuned method is higher
  outcome: {name: number, value: train.number, direction: higher, floor: 1, floor_from: a guess}
  tuning:
    of: factor
    grid: [2, 5, 7, 12]
    seeds: [91, 92]
    by: "train.number * (200 - train.number)"
system: {paper: "Doe 2025, Tuning, arXiv:2501.00001", summary: Tuned}
"""


@pytest.fixture
def toy(posttrain: Command, tmp_path: Path) -> Toy:
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "toy-tuned.yaml").write_text(RECIPE, encoding="utf-8")
    variables = {"POSTTRAIN_RECIPES": str(tmp_path), "POSTTRAIN_STORE": str(tmp_path / "store")}
    return lambda *arguments: posttrain(*arguments, variables=variables)


def test_arms_are_tuned_frozen_used_and_checked(toy: Toy, tmp_path: Path) -> None:
    """Starts are 8, so 16, 40, 56 and 96 are reached: 96 (200 - 96) is the highest."""
    before = toy("reproduce", "toy-tuned")
    assert (
        before.returncode == 2 and "its arms are not tuned; run 'posttrain reproduce toy-tuned --tune'" in before.stderr
    )

    found = read(toy("reproduce", "toy-tuned", "--tune", "--json"))
    assert {arm: entry["chosen"] for arm, entry in found["arms"].items()} == {"method": 12, "baseline": 12}
    worth = [number * (200 - number) for number in (16, 40, 56, 96)]
    assert found["arms"]["baseline"]["values"] == [[one, one] for one in worth], "every arm tries the whole grid"
    kept = tmp_path / "methods" / "results" / "tuned" / "toy-tuned.json"
    assert json.loads(kept.read_text(encoding="utf-8")) == found

    record = read(toy("reproduce", "toy-tuned", "--record", "--json", "--seeds", "5"))
    assert record["claims"]["outcome"]["arms"] == {"method": [96] * 5, "baseline": [96] * 5}
    assert record["setting"]["overrides"][:2] == ["matrix.arm.method.factor=12", "matrix.arm.baseline.factor=12"]
    assert read(toy("reproduce", "toy-tuned", "--check", "--json")) == {"toy-tuned": []}

    shown = toy("reproduce", "toy-tuned", "--tune").stdout
    assert (
        "12 (an end of the grid: widen it)" in shown and "highest mean of train.number * (200 - train.number)" in shown
    )


def test_what_no_longer_fits_is_told(toy: Toy, tmp_path: Path) -> None:
    read(toy("reproduce", "toy-tuned", "--tune", "--json"))
    read(toy("reproduce", "toy-tuned", "--record", "--json", "--seeds", "5"))
    other = toy("reproduce", "toy-tuned", "--set", "least=9")
    assert other.returncode == 2 and "its arms were tuned for other work" in other.stderr

    path = tmp_path / "methods" / "toy-tuned.yaml"
    path.write_text(RECIPE.replace("[2, 5, 7, 12]", "[2, 5, 7, 13]"), encoding="utf-8")
    checked = toy("reproduce", "toy-tuned", "--check")
    assert checked.returncode == 1 and "its arms were tuned for other work" in checked.stdout
    path.write_text(RECIPE.replace("floor: 1,", "floor: 2,"), encoding="utf-8")
    assert "tuned" not in toy("reproduce", "toy-tuned", "--check").stdout.splitlines()[1].partition("toy-tuned")[2]

    path.write_text(RECIPE, encoding="utf-8")
    kept = tmp_path / "methods" / "results" / "tuned" / "toy-tuned.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    found["arms"]["method"]["chosen"] = 2
    kept.write_text(json.dumps(found), encoding="utf-8")
    told = toy("reproduce", "toy-tuned", "--check").stdout
    assert "what was chosen does not follow from what was measured" in told


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "nul", "\x1b[2J", "[" * 100_000, '{"arms": {"method": 1}}'),
        '{"slug": "x", "tuning": {}, "arms": {"a": {"chosen": 1, "means": [1], "values": [[]]}}, "operators": {}}',
    ],
)
def test_a_file_that_is_no_record_is_told(tmp_path: Path, text: str) -> None:
    path = tuned_path(tmp_path / "x.yaml", "x")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"x.json: no record of a tuning"):
        read_tuned(tmp_path / "x.yaml", "x")


def test_arms_choose_for_themselves_and_the_first_of_equals() -> None:
    words = TuningWords(of="factor", grid=[1, 2, 3], seeds=[9], by="train.number")
    found = Tuned(words, {"method": [[1.0], [4.0], [4.0]], "baseline": [[5.0], [float("nan")], [2.0]]})
    assert (found.chosen("method"), found.chosen("baseline")) == (2, 1)
    assert (found.at_edge("method"), found.at_edge("baseline")) == (False, True)
    lowest = Tuned(words.model_copy(update={"highest": False}), found.arms)
    assert (lowest.chosen("method"), lowest.chosen("baseline")) == (1, 3)
    with pytest.raises(InputError, match="arm 'x' measured no number"):
        Tuned(words, {"x": [[float("nan")]] * 3}).chosen("x")


def test_seeds_of_looks_are_not_for_tuning(toy: Toy) -> None:
    """The recipe's own seeds are 1 to 5, and a comparison may go on to seed 20."""
    for seed in (3, 20):
        done = toy("reproduce", "toy-tuned", "--tune", "--set", f"hallmark.tuning.seeds=[{seed}]")
        assert done.returncode == 2 and f"seed {seed} is one that a look uses" in done.stderr
    assert toy("reproduce", "toy-tuned", "--tune", "--set", "hallmark.tuning.seeds=[21]").returncode == 0


def test_mistakes_are_one_line(toy: Toy) -> None:
    for arguments, words in (
        (("--tune", "--check"), "it has no --check"),
        (("--tune", "--set", "hallmark.tuning=null"), "has no 'hallmark.tuning'"),
        (("--tune", "--set", "hallmark.tuning.grid=[1, 1]"), "without repetition"),
        (("--tune", "--set", "hallmark.tuning.of=faktor"), "faktor"),
    ):
        done = toy("reproduce", "toy-tuned", *arguments)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
