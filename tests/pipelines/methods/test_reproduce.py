"""`posttrain reproduce` on a toy claim whose numbers are known, and what a run measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.language.find import find_recipe
from pipelines.methods.reproduce import setting_digest
from pipelines.methods.results import read_result, record_result, verdict_json
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.measured import Measured
from tests.pipelines.cli.test_commands import Command, posttrain, read

RECIPE = "tests/pipelines/recipes/toy-claim.yaml"
__all__ = ["posttrain"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("claims") / "store")


@pytest.fixture(scope="module")
def found(posttrain: Command, store: str) -> dict[str, Any]:
    return read(posttrain("reproduce", RECIPE, "--json", "--store", store))


def test_effects_are_paired_by_seed(found: dict[str, Any]) -> None:
    # the base of seed s is 5 s; the method makes 15 s of it, the baseline 10 s
    number = found["measures"]["number"]
    assert number["arms"] == {"method": [15.0, 30.0, 45.0], "baseline": [10.0, 20.0, 30.0]}
    assert (number["effects"], number["verdict"]) == ([5.0, 10.0, 15.0], "seen")
    assert number["interval"] == {"value": 10.0, "low": 5.0, "high": 15.0, "n": 3}
    ratio = found["measures"]["ratio"]
    assert (ratio["arms"]["method"], ratio["effects"]) == ([3.0] * 3, [1.5] * 3)
    # what the score adds after its first number is the trained model's
    assert found["measures"]["total"]["effects"] == [-5.0, -10.0, -15.0]
    assert found["also"]["start"]["arms"]["baseline"] == [5.0] * 3
    assert found["also"]["half"]["arms"]["method"] == [(5 * s + 20 * s) / 2 for s in (1, 2, 3)]
    assert (found["verdict"], found["catalogue"], found["seeds"]) == ("seen", 7, [1, 2, 3])


def test_what_made_it_is_kept(found: dict[str, Any]) -> None:
    assert found["setting"]["overrides"] == []
    assert len(found["setting"]["digest"]) == 64
    assert found["code"]["version"] and found["date"] and found["run_seconds"] >= 0
    assert set(found["seconds"]["arms"]) == {"method", "baseline"}


def test_a_setting_is_what_is_asked_for_whatever_the_comments(tmp_path: Path) -> None:
    def digest(recipe: str | Path, *overrides: str) -> str:
        return setting_digest(build_plan(load_recipe(str(recipe), list(overrides)), "store", "run"))

    shipped = find_recipe("methods/grpo")
    told = tmp_path / "grpo.yaml"
    told.write_text(f"# What came out: nothing.\n{shipped.read_text(encoding='utf-8')}", encoding="utf-8")
    assert digest(told, "defaults.retries=3") == digest("methods/grpo")
    assert digest("methods/grpo", "rl_steps=61") != digest("methods/grpo")
    assert digest("methods/grpo", "hallmark.claim=Another") != digest("methods/grpo")


def test_two_seeds_are_too_few_for_a_verdict_and_the_exit_code_is_0(posttrain: Command, store: str) -> None:
    done = posttrain("reproduce", RECIPE, "--set", "matrix.seed=[1, 2]", "--store", store)
    assert done.returncode == 0, done.stderr
    assert "seeds 1, 2" in done.stdout
    assert done.stdout.rstrip().endswith("verdict: not seen")


def test_an_opposite_effect(posttrain: Command, store: str) -> None:
    done = posttrain(
        "reproduce", RECIPE, "--set", "factor=1", "--set", "hallmark.measures.number.margin=0", "--store", store
    )
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert lines["number"].endswith("opposite") and "-10 [-15, -5]" in lines["number"]
    assert done.returncode == 0 and done.stdout.rstrip().endswith("verdict: opposite")


def test_a_failing_stage_ends_it(posttrain: Command, store: str) -> None:
    done = posttrain("reproduce", RECIPE, "--set", "fail=true", "--store", store)
    assert done.returncode == 1
    assert "told to fail" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("no-such-method",), "unknown recipe 'methods/no-such-method'"),
        ((RECIPE, "--set", "hallmark=null"), "has no 'hallmark'"),
        ((RECIPE, "--record"), "unknown method 'toy-claim'"),
        ((RECIPE, "--seeds", "0"), "expected at least 1"),
        (
            (RECIPE, "--set", "hallmark.measures.number.value=train.seconds / (train.number - train.number)"),
            "divides by zero",
        ),
    ],
)
def test_mistakes_are_one_line(posttrain: Command, store: str, arguments: tuple[str, ...], words: str) -> None:
    done = posttrain("reproduce", *arguments, "--store", store)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def test_metrics_of_a_run(found: dict[str, Any], store: str) -> None:
    measured = Measured(open_store(store), found["run_id"])
    stage = "score-seed-2-arm-method"  # it saw 10, then 30
    at = {
        name: measured.value(stage, f"sum@{name}")
        for name in ("1", "2", "99", "1_2", "mean", "max", "min", "first", "last")
    }
    assert at == {"1": 10, "2": 40, "99": 40, "1_2": 25, "mean": 25, "max": 40, "min": 10, "first": 10, "last": 40}
    assert measured.value(stage, "total") == 40
    assert measured.value(stage, "seconds") == measured.seconds(stage) > 0
    for name, words in {
        "totl": "did you mean 'total'",
        "summ@1": "did you mean 'sum'",
        "sum@median": "expected a step",
        "sum@0": "up to step 0",
        "sum@5_9": "in steps 5 to 9",
    }.items():
        with pytest.raises(InputError, match=words):
            measured.value(stage, name)
    with pytest.raises(InputError, match="has no history"):
        measured.value("start", "sum@1")


def test_a_result_is_recorded_beside_its_method(found: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "toy-claim.yaml"
    record_result(file, found)
    kept = json.loads((tmp_path / "results" / "toy-claim.json").read_text())
    assert kept == {key: value for key, value in found.items() if key != "run_id"}
    assert read_result(file, "toy-claim") == kept
    shown = verdict_json(kept)
    assert shown["measures"]["number"]["interval"] == found["measures"]["number"]["interval"]
