"""`posttrain reproduce` on a toy claim whose numbers are known, and what a run measured."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.cli import reproduce as command
from pipelines.cli.reproduce import StageFailed
from pipelines.language.find import find_recipe
from pipelines.methods.digests import operator_digests, setting_digest
from pipelines.methods.records import remarks_on, what_changed
from pipelines.methods.results import EARLIER_PROTOCOL, read_result, record_result, verdict_json
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.measured import Measured
from tests.pipelines.cli.test_commands import Command, posttrain, read
from tests.pipelines.methods.made_records import method, record

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
    seeds = range(1, 9)
    number, ratio = found["claims"]["outcome"], found["secondary"]["ratio"]
    assert number["arms"] == {"method": [15 * s for s in seeds], "baseline": [10 * s for s in seeds]}
    assert number["effects"] == [5 * s for s in seeds]
    assert (ratio["arms"]["method"], ratio["effects"]) == ([3.0] * 8, [1.5] * 8)
    # what the score adds after its first number is the trained model's
    assert found["claims"]["mechanism"]["effects"] == [5 * s for s in seeds]
    assert found["also"]["start"]["arms"]["baseline"] == [5.0] * 8
    assert found["also"]["half"]["arms"]["method"] == [(5 * s + 20 * s) / 2 for s in seeds]


def test_a_claim_is_judged_at_the_look_that_decides_it(found: dict[str, Any]) -> None:
    """Effects 5, 10 ... 5 n: at 5 seeds the interval begins at -1.3; at 8, with 15 % of the error, at 5.7."""
    assert (found["catalogue"], found["seeds"]) == (7, [1, 2, 3, 4, 5, 6, 7, 8])
    assert found["verdicts"] == {"mechanism": "seen", "outcome": "seen"}
    decision = found["claims"]["outcome"]["decision"]
    reach = stats.t.ppf(1 - 0.02 * 0.15, 7) * statistics.stdev(range(5, 41, 5)) / math.sqrt(8)
    expected = {"value": 22.5, "low": pytest.approx(22.5 - reach, 1e-5), "high": pytest.approx(22.5 + reach, 1e-5)}
    assert decision["interval"] == expected
    assert (decision["look"], decision["confidence"], decision["more_seeds"]) == (8, 0.994, None)
    p = stats.t.sf((22.5 - 2) / (statistics.stdev(range(5, 41, 5)) / math.sqrt(8)), 7) / 0.15
    assert decision["p"] == pytest.approx(p, 1e-5), "the second look's, over its share of the error"
    assert found["preconditions"]["grows"]["holds"] and found["active"]["multiplies"]["mean"] == 3


@pytest.mark.parametrize(
    "change, verdict, told",
    [
        ("hallmark.preconditions.grows.at_least=1000", "precondition absent", "does not hold"),
        ("hallmark.active.multiplies.at_most=2", "operator inactive", "does not hold"),
        ("hallmark.budget=train.number", "invalid", "train.number: method spends 45, baseline 30, more than 5 % apart"),
    ],
)
def test_what_cannot_be_tested_ends_at_the_first_look(
    posttrain: Command, store: str, change: str, verdict: str, told: str
) -> None:
    done = posttrain("reproduce", RECIPE, "--set", change, "--store", store)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(f"mechanism: {verdict}\noutcome: {verdict}")
    assert told in done.stdout and "seeds 1, 2, 3, 4, 5 |" in done.stdout


def test_what_made_it_is_kept(found: dict[str, Any]) -> None:
    assert found["setting"]["overrides"] == ["matrix.seed=[1, 2, 3, 4, 5, 6, 7, 8]"]
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


def test_few_seeds_give_no_verdict_and_the_exit_code_is_0(posttrain: Command, store: str) -> None:
    done = posttrain("reproduce", RECIPE, "--seeds", "2", "--store", store)
    assert done.returncode == 0, done.stderr
    assert "seeds 1, 2 |" in done.stdout and "to be looked at" in done.stdout
    assert done.stdout.rstrip().endswith("outcome: undecided")


def test_an_opposite_effect(posttrain: Command, store: str) -> None:
    done = posttrain("reproduce", RECIPE, "--set", "factor=1", "--set", "hallmark.active=null", "--store", store)
    assert done.returncode == 0, done.stderr
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines() if line}
    assert lines["outcome: number"].endswith("opposite") and "-22.5 [-39.3, -5.67]" in lines["outcome: number"]


def test_the_cap_says_how_many_seeds_would_do(posttrain: Command, store: str) -> None:
    changes = ("hallmark.looks=[5]", "hallmark.mechanism=null", "hallmark.outcome.floor=10")
    done = posttrain("reproduce", RECIPE, *(text for change in changes for text in ("--set", change)), "--store", store)
    assert done.stdout.rstrip().endswith("outcome: undecided; about 21 seeds would do, were the effect as seen")


def test_a_condition_is_measured_of_the_arms_that_it_names(posttrain: Command, store: str) -> None:
    """Others may not have it: a clip fraction of a method without a clip. Here the method would divide by zero."""
    value = {"value": "base.number / (train.number - 3 * base.number)", "at_least": -1}
    change = f"hallmark.preconditions.grows={json.dumps(value)}"
    done = posttrain("reproduce", RECIPE, "--set", change, "--store", store)
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("grows"))
    assert row.split()[1:4] == ["-", "-1", "-1"] and row.endswith("holds"), done.stderr


@pytest.mark.parametrize(("effect", "code"), [("baseline", 0), ("method - baseline", 2)])
def test_an_effect_needs_its_quantity_of_the_arms_that_it_names(
    posttrain: Command, store: str, effect: str, code: int
) -> None:
    """Others may not have it: how far votes agree, in an arm without a vote. Here the method would divide by zero."""
    value = {"value": "base.number / (train.number - 3 * base.number)", "effect": effect}
    done = posttrain("reproduce", RECIPE, "--set", f"hallmark.secondary.alone={json.dumps(value)}", "--store", store)
    assert done.returncode == code
    if code:
        assert "arm 'method', seed 1" in done.stderr and "Traceback" not in done.stderr
    else:
        (row,) = (line for line in done.stdout.splitlines() if line.startswith("alone"))
        assert row.split()[1:4] == ["-", "-1", "-1"]


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
            (RECIPE, "--set", "hallmark.outcome.value=train.seconds / (train.number - train.number)"),
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
    assert (measured.value(stage, "sum@std"), measured.value(stage, "sum@rmssd")) == (15, 30)
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
    assert shown["claims"]["outcome"]["decision"] == found["claims"]["outcome"]["decision"]
    assert shown["verdicts"] == {"mechanism": "seen", "outcome": "seen"}


def test_a_record_says_what_changed_since() -> None:
    def changes(record: dict[str, Any], *overrides: str) -> list[str]:
        return what_changed(record, build_plan(load_recipe("methods/grpo", list(overrides)), "store", "run"))

    plan = build_plan(load_recipe("methods/grpo", []), "store", "run")
    decision = {
        "verdict": "seen",
        "look": 5,
        "confidence": 0.99,
        "p": 0.0,
        "interval": {"value": 1.0, "low": 1.0, "high": 1.0},
        "more_seeds": None,
    }
    claim = {"direction": "higher", "floor": 0.1, "effects": [1.0] * 12, "decision": decision}
    decision |= {"look": 12, "confidence": 0.992, "p": float(f"{0.5**12 / 0.2:.6g}")}
    record = {
        "format": 2,
        "looks": [5, 8, 12, 20],
        "claims": {"outcome": claim},
        "setting": {"digest": setting_digest(plan)},
        "operators": operator_digests(plan.recipe),
    }
    assert changes(record) == []
    assert changes(record, "rl_steps=61") == ["the recipe requests other work"]
    assert remarks_on("grpo", {"verdict": "seen"}) == [EARLIER_PROTOCOL]
    assert changes(record | {"operators": record["operators"] | {"objective ppo_clip": "0"}}) == [
        "the code of objective ppo_clip changed"
    ]
    claim["effects"] = [-1.0] * 12
    assert changes(record) == ["its verdicts are not those of its effects"]


@pytest.mark.parametrize(
    "value, words",
    [
        (
            "train.number * 1e308 * 10",
            "arm 'method', seed 1: train.number * 1e308 * 10 is inf, so nothing can be judged",
        ),
        ("train.number * 1e308 * 10 - train.number * 1e308 * 10", "is nan, so nothing can be judged"),
        ("\"'high'\"", "is high, so nothing can be judged"),
        ("1 / (base.number - 5)", "seed 1: '1 / (base.number - 5)' divides by zero"),
    ],
)
def test_a_seed_without_a_number_is_named(posttrain: Command, store: str, value: str, words: str) -> None:
    change = ("--set", f"hallmark.outcome.value={value}", "--seeds", "2")
    done = posttrain("reproduce", RECIPE, *change, "--store", store)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_all_goes_on_after_a_method_that_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ends: dict[str, Exception | None] = {"a": InputError("no\x1b[2J metric"), "b": StageFailed(1), "c": None}

    def one(slug: str, arguments: argparse.Namespace) -> dict[str, Any]:
        if (error := ends[slug]) is not None:
            raise error
        return {"slug": slug, "verdicts": {"outcome": "seen"}, "run_id": "r", "seeds": [0]}

    monkeypatch.setattr(command, "_every_slug", lambda: list(ends))
    monkeypatch.setattr(command, "_reproduce", one)
    arguments = argparse.Namespace(slug=None, all=True, json=True, store=str(tmp_path / "store"))
    vars(arguments).update(dict.fromkeys(("check", "tune", "confirm", "seeds", "record", "overrides"), False))
    assert command.reproduce(arguments) == 2
    shown = capsys.readouterr()
    assert [record["slug"] for record in json.loads(shown.out)] == ["c"]
    assert "a: no\\x1b[2J metric" in shown.err
    ends["a"] = StageFailed(130)
    assert command.reproduce(arguments) == 130, "a person who stops it stops all of it"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"claim": 1}', '{"verdicts": []}', "nul", "\x1b[2J", "[" * 100_000, '{"format": 2}']
)
def test_a_file_that_is_no_record_is_told_and_hides_no_method(tmp_path: Path, text: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.json").write_text(text)
    with pytest.raises(InputError, match=r"x.json: no record of a reproduction"):
        read_result(tmp_path / "x.yaml", "x")


def test_hostile_records_are_remarks() -> None:
    good = record("grpo", outcome=[0.05, 0.06, 0.055, 0.048, 0.062])
    claim = good["claims"]["outcome"]
    for change, words in (
        ({"looks": []}, "expected ascending numbers of seeds"),
        ({"looks": [0]}, "expected ascending numbers of seeds"),
        ({"claims": {"outcome": claim | {"direction": "sideways"}}}, "malformed"),
        ({"claims": {"outcome": claim | {"floor": -1}}}, "malformed"),
        ({"claims": {"outcome": claim | {"effects": ["a"] * 5}}}, "malformed"),
        ({"operators": None}, "malformed"),
        ({"setting": {}}, "malformed"),
        ({"setting": {"digest": "x", "overrides": ["no.such.thing=1"]}}, "its overrides no longer fit the recipe"),
    ):
        (remark,) = method("grpo", good | change).remarks or []
        assert words in remark and "\n" not in remark
