"""A sweep from the command to its digests: drawn, stopped, cached, killed and resumed, and its best trial taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import caches, digests
from tests.support.toy_command import PLUGIN, ROOT, Command, toy_command

RECIPE = """
name: tiny-sweep
params: {factor: 2}
sweep:
  space: {factor: {low: 1, high: 60}}
  maximize: deep.number
  sampler: tpe
  trials: 4
  batch: 2
  stop: [{at: train.number, keep: 0.5}]
stages:
  base: {uses: toy-train}
  train: {uses: toy-train, in: {model: base.model}, with: {factor: "${params.factor}"}}
  deep: {uses: toy-train, in: {model: train.model}, with: {factor: 3}}
  final: {uses: toy-score, in: {models: ["deep[trial=best].model"]}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recipe's file."""
    path = tmp_path_factory.mktemp("recipe") / "tiny-sweep.yaml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the straight run."""
    return tmp_path_factory.mktemp("straight") / "store"


@pytest.fixture(scope="module")
def command(store: Path) -> Command:
    """The command line on the store of the straight run."""
    return toy_command(store)


@pytest.fixture(scope="module")
def straight(command: Command, recipe: str) -> dict[str, Any]:
    """A run of the sweep from start to end."""
    done = command("run", recipe, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stage(shown: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stage for stage in shown["stages"] if stage["name"] == name)


def test_each_trial_ran_with_what_was_drawn_and_the_best_is_the_best(straight: dict[str, Any]) -> None:
    factors = {n: stage(straight, f"train-trial-{n}")["params"]["factor"] for n in range(1, 5)}
    for n in (3, 4):
        drawn = stage(straight, f"sweep-draw-{(n - 1) // 2 + 1}")["metrics"][f"factor_{n}"]
        assert factors[n] == drawn and isinstance(factors[n], int)
        assert stage(straight, f"train-trial-{n}")["metrics"]["number"] == 2 * drawn
    ended = {n: stage(straight, f"deep-trial-{n}") for n in factors}
    stopped = {n for n, entry in ended.items() if entry["status"] == "skipped"}
    assert stopped == {n for n in factors if rank(factors, n) > share(n)}, "keep: 0.5 of those measured by then"
    best = max((n for n in factors if n not in stopped), key=lambda n: (factors[n], -n))
    found = stage(straight, "sweep")["metrics"]
    assert (found["best_trial"], found["objective"], found["best_factor"]) == (best, 6 * factors[best], factors[best])
    assert stage(straight, "final")["metrics"]["total"] == 6 * factors[best]


def rank(factors: dict[int, int], n: int) -> int:
    """Return the place of a trial among those of its round and before, equals sharing the better one."""
    seen = [factors[m] for m in factors if (m - 1) // 2 <= (n - 1) // 2]
    return 1 + sum(value > factors[n] for value in seen)


def share(n: int) -> int:
    return (n - 1) // 2 + 1


def test_a_second_run_draws_the_same_and_makes_nothing(straight: dict[str, Any], command: Command, recipe: str) -> None:
    again = json.loads(command("run", recipe, "--json", "--new").stdout)
    assert digests(again) == digests(straight)
    assert set(caches(again).values()) == {"hit", "none"}
    plan = command("plan", recipe).stdout
    assert " to run" not in plan, "all is cached or skipped, what the run draws included"
    assert "sweep: 4 trials by tpe in 2 rounds, maximize deep.number over factor" in plan
    assert "trials 3 to 4: drawn in the run, each round from the results before it" in plan


def test_report_and_show_tell_the_trials(straight: dict[str, Any], command: Command) -> None:
    page = Path(command("report", straight["run_id"]).stdout.strip()).read_text()
    best = int(stage(straight, "sweep")["metrics"]["best_trial"])
    assert f"Trial {best} is the best of" in page and "optimistic" in page and "stopped at train.number" in page
    assert f"best_trial {best}" in command("show", straight["run_id"]).stdout


def test_a_plan_of_a_new_sweep_says_what_the_run_decides(tmp_path: Path, recipe: str) -> None:
    shown = json.loads(toy_command(tmp_path / "store")("plan", recipe, "--json").stdout)
    trials = shown["sweep"]["trials"]
    assert [trial["params"] is None for trial in trials] == [False, False, True, True]
    entries = {entry["name"]: entry for entry in shown["stages"]}
    assert entries["train-trial-3"]["fingerprint"] is None
    assert "parameters come from sweep-draw-2, which will run" in toy_command(tmp_path / "store")("plan", recipe).stdout


def test_killed_at_any_instant_and_run_again_it_ends_in_the_same_trials(
    straight: dict[str, Any], recipe: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    command = toy_command(store)
    for wanted in ("sweep-draw-2", "deep-trial-3", "sweep"):
        killed_after(store, recipe, wanted)
    done = json.loads(command("run", recipe, "--json").stdout)
    assert digests(done) == digests(straight)
    names = [f"train-trial-{n}" for n in range(1, 5)]
    assert [stage(done, name)["params"] for name in names] == [stage(straight, name)["params"] for name in names]


def killed_after(store: Path, recipe: str, name: str) -> None:
    """Start the run in a process group of its own and SIGKILL all of it once a stage is in the ledger."""
    environment = {**os.environ, "POSTTRAIN_LINEAGE": "later", "POSTTRAIN_STORE": str(store)}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "run", recipe, "--jobs", "1"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(store.glob(f"ledger/*/stages/{name}.json")) and process.poll() is None:
        assert time.monotonic() < deadline, f"{name} did not end"
        time.sleep(0.02)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_mlflow_has_the_trials_as_a_table_with_the_best_marked(
    straight: dict[str, Any], command: Command, store: Path
) -> None:
    from mlflow.tracking import MlflowClient

    done = command("lineage", "sync")
    assert done.returncode == 0, done.stderr
    client = MlflowClient(f"sqlite:///{store.parent / 'mlflow.db'}")
    [experiment] = [found for found in client.search_experiments() if found.name == "tiny-sweep"]
    runs = [run for run in client.search_runs([experiment.experiment_id]) if run.data.tags.get("posttrain.stage")]
    mine = {r.data.tags["posttrain.stage"]: r for r in runs if r.data.tags["posttrain.run_id"] == straight["run_id"]}
    table = json.loads(Path(client.download_artifacts(mine["sweep"].info.run_id, "trials.json")).read_text())
    assert table["columns"] == ["trial", "params.factor", "objective", "end", "best"]
    best = int(stage(straight, "sweep")["metrics"]["best_trial"])
    assert [row[0] for row in table["data"] if row[-1]] == [best]
    drawn = stage(straight, "train-trial-3")["params"]["factor"]
    assert mine["train-trial-3"].data.params["factor"] == str(drawn), "what was drawn, not the default"
