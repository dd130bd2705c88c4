"""Runs that go on without what failed: trials of a sweep, arms of a matrix; and what becomes of them the next time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.toy_command import Command, toy_command

SWEEP = """
name: failing-sweep
params: {factor: 2, broken: false}
sweep:
  space: {factor: [3, 5], broken: [false, true]}
  sampler: grid
  maximize: deep.number
  on_failure: skip
stages:
  base: {uses: toy-train}
  train: {uses: toy-train, in: {model: base.model}, with: {factor: "${params.factor}", fail: "${params.broken}"}}
  deep: {uses: toy-train, in: {model: train.model}, with: {factor: 3}}
  final: {uses: toy-score, in: {models: ["deep[trial=best].model"]}}
"""
ARMS = """
name: arms
matrix: {arm: {good: {}, raising: {fail: true}, dying: {leave: true}, slow: {spin: true}}}
stages:
  base: {uses: toy-train, matrix: none}
  train:
    uses: toy-train
    in: {model: base.model}
    with: "${matrix.arm}"
    on_failure: skip
    retries: 1
    backoff: 0
    timeout: 1s
  all: {uses: toy-score, in: {models: [[train.model, none]]}, matrix: none}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both recipes."""
    found = tmp_path_factory.mktemp("going-on")
    (found / "failing-sweep.yaml").write_text(SWEEP)
    (found / "arms.yaml").write_text(ARMS)
    return found


@pytest.fixture(scope="module")
def command(folder: Path) -> Command:
    """The command line on a store of its own."""
    return toy_command(folder / "store")


@pytest.fixture(scope="module")
def sweep(command: Command, folder: Path) -> dict[str, Any]:
    """The run of the sweep, half of whose trials fail."""
    done = command("run", str(folder / "failing-sweep.yaml"), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_name(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in shown["stages"]}


def test_the_best_is_picked_among_the_others(sweep: dict[str, Any]) -> None:
    stages = by_name(sweep)
    assert sweep["status"] == "succeeded"
    status = {name: stages[name]["status"] for name in ("train-trial-2", "deep-trial-2", "deep-trial-3", "final")}
    assert status == {"train-trial-2": "failed", "deep-trial-2": "skipped", "deep-trial-3": "done", "final": "done"}
    assert stages["train-trial-2"]["error"] == "ValueError: told to fail"
    assert stages["deep-trial-2"]["reason"] == "its input model comes from train-trial-2, which failed"
    assert (stages["sweep"]["metrics"]["best_trial"], stages["sweep"]["metrics"]["num_failed"]) == (3, 2)
    assert stages["final"]["metrics"]["total"] == 2 * 5 * 3


def test_show_and_report_tell_what_failed(sweep: dict[str, Any], command: Command) -> None:
    text = command("show", sweep["run_id"]).stdout
    assert "train-trial-2 failed: ValueError: told to fail; the run went on without it" in text
    page = Path(command("report", sweep["run_id"]).stdout.strip()).read_text()
    assert "Trials 2 and 4 failed." in page and "told to fail" in page


def test_mlflow_shows_failed_trials_as_failed(sweep: dict[str, Any], command: Command, folder: Path) -> None:
    from mlflow.tracking import MlflowClient

    assert command("lineage", "sync").returncode == 0
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    [experiment] = [found for found in client.search_experiments() if found.name == "failing-sweep"]
    runs = {run.data.tags.get("posttrain.stage"): run for run in client.search_runs([experiment.experiment_id])}
    failed = runs["train-trial-2"]
    assert (failed.info.status, failed.data.tags["posttrain.status"]) == ("FAILED", "failed")
    assert failed.data.tags["posttrain.error"] == "ValueError: told to fail"
    assert (runs[None].info.status, runs["deep-trial-2"].info.status) == ("FINISHED", "FINISHED")
    table = json.loads(Path(client.download_artifacts(runs["sweep"].info.run_id, "trials.json")).read_text())
    assert [row[table["columns"].index("end")] for row in table["data"]] == ["finished", "failed"] * 2


def test_a_new_run_tries_what_failed_again(sweep: dict[str, Any], command: Command, folder: Path) -> None:
    again = json.loads(command("run", str(folder / "failing-sweep.yaml"), "--json").stdout)
    assert again["run_id"] != sweep["run_id"]
    stages = by_name(again)
    reused = {name for name, stage in stages.items() if stage["cache"] == "hit"}
    assert reused == {name for name, stage in by_name(sweep).items() if stage["status"] == "done"}
    assert stages["train-trial-2"]["status"] == "failed"


def test_where_all_trials_fail_the_run_fails_with_the_reason(command: Command, folder: Path) -> None:
    stopped = command("run", str(folder / "failing-sweep.yaml"), "--json", "--set", "stages.base.with.fail=true")
    assert by_name(json.loads(stopped.stdout))["base"]["status"] == "failed", "what all trials share stops the run"
    call = ("run", str(folder / "failing-sweep.yaml"), "--json", "--set", "stages.train.with.fail=true")
    failed = command(*call)
    shown = json.loads(failed.stdout)
    assert (failed.returncode, shown["status"]) == (1, "failed")
    assert "all 4 trials of the sweep failed; trial 1: ValueError: told to fail" in by_name(shown)["sweep"]["error"]
    again = json.loads(command(*call).stdout)
    assert again["run_id"] != shown["run_id"], "a new run tries the trials again"


def test_an_arm_that_raises_dies_or_hangs_leaves_the_others(command: Command, folder: Path) -> None:
    done = command("run", str(folder / "arms.yaml"), "--json")
    stages = by_name(json.loads(done.stdout))
    assert done.returncode == 0, done.stderr
    failed = {name: stage["error"] for name, stage in stages.items() if stage["status"] == "failed"}
    assert sorted(failed) == ["train-arm-dying", "train-arm-raising", "train-arm-slow"]
    assert "timeout of 1 s" in failed["train-arm-slow"] and "told to fail" in failed["train-arm-raising"]
    assert stages["all"]["metrics"]["total"] == 4, "the arm that is left"
    attempts = list((folder / "store").glob("ledger/arms-*/attempts/train-arm-raising.*.json"))
    assert len(attempts) == 2, "its retry came first"
