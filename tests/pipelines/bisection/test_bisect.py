"""`posttrain bisect` on stages that take no time: real runs, real caches, kills, data that changed, refusals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contract import plug_ins, registry
from components.contract.errors import InputError
from pipelines.cli import main
from tests.support.one_tensor import write_one_tensor
from tests.support.toy_command import PLUGIN, ROOT, Command, toy_command

CHAIN = """\
name: toy-chain
seed: 100
params: {one: 1, two: 1, three: 1, loud: false, late: false, unused: 1}
defaults: {backoff: 0}
stages:
  start: {uses: toy-train, with: {factor: "${seed}"}}
  a: {uses: toy-train, in: {model: start.model}, with: {factor: "${params.one}"}}
  b:
    gate: number > 0
    uses: toy-train
    in: {model: a.model}
    with: {factor: "${params.two}", explode: "${params.loud}"}
  c:
    register: toy
    uses: toy-train
    in: {model: b.model}
    with: {factor: "${params.three}", explode: "${params.late}"}
  aside: {uses: toy-train, in: {model: c.model}}
  score: {uses: toy-score, in: {models: [c.model]}}
"""
TWO_SEEDS = ("--seeds", "2", "--max-seeds", "2")
METRIC = ("--metric", "score.total")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def toy(store: Path) -> Command:
    return toy_command(store)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good.yaml", CHAIN)


@pytest.fixture
def here(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that calls the command in this process and returns its one refusal; nothing may run."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("POSTTRAIN_DEBUG", "1")
    caches = (registry.components, plug_ins._entry_points)
    for cached in caches:
        cached.cache_clear()

    def refused(*arguments: str) -> str:
        with pytest.raises(InputError) as error:
            main(["bisect", *arguments, "--store", str(store)])
        assert not (store / "ledger").exists(), "nothing has run"
        assert "\n" not in str(error.value)
        return str(error.value)

    yield refused
    for cached in caches:
        cached.cache_clear()


def write(path: Path, text: str, **changes: str) -> Path:
    for old, new in changes.items():
        text = re.sub(rf"\b{old}: [^,}}]+", f"{old}: {new}", text, count=1)
    path.write_text(text, encoding="utf-8")
    return path


def bisect(toy: Command, good: Path | str, bad: Path | str, *more: str, code: int = 0) -> Any:
    done = toy("bisect", str(good), str(bad), *METRIC, *TWO_SEEDS, *more, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def names(found: Any) -> list[list[str]]:
    return [cause["names"] for cause in found["causes"]]


def test_one_cause_from_the_plan_to_the_page(toy: Command, good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.yaml", CHAIN, late="true", two="40", loud="true", unused="2")
    told = toy("bisect", str(good), str(bad), *METRIC, *TWO_SEEDS, "--plan")
    assert told.returncode == 0, told.stderr
    assert re.search(r"^1 +parameters  b +two: 1 -> 40$", told.stdout, re.MULTILINE)
    assert "changes no stage behind the metric: unused: 1 -> 2" in told.stdout
    assert "GOOD at 2 seeds: 0 of 10 stages are cached" in told.stdout, "without the stage aside"
    assert "shared by all halves at a seed: start, a" in told.stdout
    assert not (tmp_path / "store" / "ledger").exists(), "a plan runs nothing"

    found = bisect(toy, good, bad, "--output", str(tmp_path / "page.html"))
    assert names(found) == [["two"]]
    (cause,) = found["causes"]
    assert cause["effect"]["value"] == pytest.approx(39 * 100.5)
    assert cause["effect"]["low"] > 0
    assert found["without_causes"] == "good"
    assert len(found["tried"]) <= 4
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What moved score.total" in page and "two: 1 -&gt; 40" in page and "<svg" in page

    again = bisect(toy, good, bad)
    assert again["causes"] == found["causes"] and again["halves_seconds"] == again["ends_seconds"] == 0, (
        "all of it is in the store"
    )
    shown = toy("bisect", str(good), str(bad), *METRIC, *TWO_SEEDS).stdout
    assert "cause: GOOD with it +3.92e+03" in shown and "BAD without it is like GOOD" in shown
    assert toy("lineage", "toy").returncode != 0, "no half is registered"


def test_two_that_act_only_together_are_named_as_a_set(toy: Command, good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.yaml", CHAIN, one="10", three="10", loud="true")
    found = bisect(toy, good, bad)
    assert names(found) == [["one", "three"]]
    assert found["causes"][0]["effect"]["value"] == pytest.approx(99 * 100.5)


def test_ends_that_do_not_differ_are_told_with_the_interval(toy: Command, good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.yaml", CHAIN, loud="true")
    done = toy("bisect", str(good), str(bad), *METRIC, *TWO_SEEDS)
    assert done.returncode == 2
    assert "GOOD and BAD do not differ in the metric: +0 [+0, +0] over 2 seeds" in done.stderr


def test_an_end_or_a_half_that_fails_is_told(toy: Command, good: Path, tmp_path: Path) -> None:
    failing = CHAIN.replace('explode: "${params.loud}"', 'fail: "${params.loud}"')
    bad = write(tmp_path / "bad.yaml", failing, loud="true", two="9")
    done = toy("bisect", str(good), str(bad), *METRIC, *TWO_SEEDS)
    assert done.returncode == 2
    assert "BAD does not run at seed 100: b: ValueError: told to fail" in done.stderr

    # fails unless `two` is there as well: a half that does not run, and a pair that no half tells apart
    able = CHAIN.replace("gate: number > 0", 'when: "params.two > params.one - 5"')
    bad = write(tmp_path / "able.yaml", able, one="6", two="7")
    base = write(tmp_path / "base.yaml", able)
    found = bisect(toy, base, bad)
    assert names(found) == [["one", "two"]]
    assert "does not run" in {one["verdict"] for one in found["tried"]}


def test_data_that_a_recorded_run_read_is_a_difference(toy: Command, tmp_path: Path) -> None:
    (tmp_path / "start").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "start" / name).write_text("{}")
    write_one_tensor(tmp_path / "start" / "model.safetensors")
    (tmp_path / "start" / "model.json").write_text("7")
    text = (
        CHAIN.replace("start.model}", "./start}")
        .replace("  start:", "  other:")
        .replace('factor: "${params.three}"', 'factor: "${seed}"')
    )
    recipe = write(tmp_path / "data.yaml", text)
    run_id = json.loads(toy("run", str(recipe), "--json", "--set", "loud=true").stdout)["run_id"]
    (tmp_path / "start" / "model.json").write_text("1000")
    found = bisect(toy, run_id, recipe)
    assert names(found) == [["stages.a.in.model"]]
    kinds = {tuple(one["names"]): one["kind"] for one in found["differences"]}
    assert kinds == {("stages.a.in.model",): "data", ("loud",): "parameters"}, "the run's --set counts"

    write(recipe, text, two="3")
    assert bisect(toy, run_id, recipe)["ends"]["good"] == run_id, "the record has the text as it was"
    parent = write(tmp_path / "parent.yaml", text)
    child = tmp_path / "child.yaml"
    child.write_text("name: child\nextends: ./parent.yaml\n")
    second = json.loads(toy("run", str(child), "--json").stdout)["run_id"]
    write(parent, text, one="3")  # of parents the record has no text
    done = toy("bisect", second, str(child), *METRIC)
    assert done.returncode == 2
    assert f"run {second}: stage a ran with factor 1, and it is 3 now: its recipe, a parent of it" in done.stderr


def test_a_kill_loses_no_finished_stage(toy: Command, store: Path, good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.yaml", CHAIN, late="true", two="40", loud="true")
    command = [sys.executable, "-m", "pipelines.cli", "bisect", str(good), str(bad), *METRIC, *TWO_SEEDS, "--json"]
    variables = {**os.environ, "POSTTRAIN_STORE": str(store), "POSTTRAIN_LINEAGE": "later"}
    variables["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    since = time.monotonic()
    while len(list(store.glob("ledger/*/end.json"))) < 3:
        assert process.poll() is None and time.monotonic() < since + 100
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = {path.name for path in store.glob("actions/*")}
    found = bisect(toy, good, bad)
    assert names(found) == [["two"]]
    started = [json.loads(path.read_text()) for path in store.glob("ledger/*/stages/*.json")]
    ran = [entry["fingerprint"] for entry in started if entry.get("cache") == "miss"]
    assert len(ran) == len(set(ran)), "nothing was run twice"
    assert before and before <= {path.name for path in store.glob("actions/*")}


def test_bad_input_is_one_clear_line_before_anything_runs(here: Any, good: Path, tmp_path: Path) -> None:
    bad = str(write(tmp_path / "bad.yaml", CHAIN, two="40"))
    assert "do not differ in anything that changes a result" in here(
        str(good), str(write(tmp_path / "same.yaml", CHAIN.replace("gate: number > 0", "retries: 3"))), *METRIC
    )
    assert "differ in nothing that score.total depends on (unused change no stage" in here(
        str(good), str(write(tmp_path / "idle.yaml", CHAIN, unused="5")), *METRIC
    )
    assert "measures no 'totl'; did you mean 'total'?" in here(str(good), bad, "--metric", "score.totl")
    assert "has no stage 'scor'; did you mean 'score.total'?" in here(str(good), bad, "--metric", "scor.total")
    assert "is neither a recipe nor a run" in here(str(good), "no-such-run", *METRIC)
    assert "has no commit 'no-such-commit'" in here(f"{good}@no-such-commit", bad, *METRIC)
    assert "--seeds: expected at least 2" in here(str(good), bad, *METRIC, "--seeds", "1")
    cells = write(tmp_path / "cells.yaml", CHAIN.replace("defaults:", "matrix: {arm: [1, 2]}\ndefaults:"))
    assert "score is 2 stages of BAD" in here(str(good), str(cells), *METRIC)
    assert "score-arm-1" in here(str(good), str(cells), *METRIC)
    own = CHAIN.replace('factor: "${seed}"', "factor: 5").replace(
        "    uses: toy-train\n", "    uses: toy-train\n    seed: 1\n"
    )
    own = re.sub(r"uses: (toy-\w+),", r"uses: \1, seed: 1,", own)
    fixed = write(tmp_path / "fixed.yaml", own), write(tmp_path / "fixed-too.yaml", own, two="40")
    assert "no stage behind the metric depends on the recipe's seed" in here(*map(str, fixed), *METRIC)
    other = "name: other\nstages:\n  x: {uses: toy-train}\n  score: {uses: toy-score, in: {models: [x.model]}}\n"
    assert "share no stage but score" in here(str(good), str(write(tmp_path / "other.yaml", other)), *METRIC)


def test_seeds_of_a_matrix_are_the_pairs(toy: Command, tmp_path: Path) -> None:
    text = CHAIN.replace("seed: 100\n", "matrix: {seed: [100, 101, 102]}\n")
    good, bad = write(tmp_path / "good.yaml", text), write(tmp_path / "bad.yaml", text, two="40", loud="true")
    found = bisect(toy, good, bad)
    assert found["seeds"] == [100, 101]
    assert names(found) == [["two"]]
