"""Real commands on a real third-party package: run, plan, show, approve, lineage, compare, report, stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.runtime.store import open_store
from tests.support.toy_command import RECIPE, ROOT, Command, toy_command


@pytest.fixture(scope="module")
def posttrain(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return a function that runs `posttrain` with the toy package installed and a store of the module's own."""
    return toy_command(tmp_path_factory.mktemp("toy") / "store")


def read(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_recipe_from_plan_to_lineage(posttrain: Command, tmp_path: Path) -> None:
    before = read(posttrain("plan", RECIPE, "--json"))
    shown = read(posttrain("run", RECIPE, "--json"))
    after = read(posttrain("plan", RECIPE, "--json"))

    # the same stage names everywhere, and the promised fields
    names = ["base", "train", "again", "score"]
    assert [stage["name"] for stage in before["stages"]] == names
    assert [stage["name"] for stage in shown["stages"]] == names
    assert {"run_id", "recipe", "status", "stages"} <= shown.keys()
    fields = {"name", "component", "status", "cache", "fingerprint", "seconds", "metrics", "outputs"}
    assert all(fields <= stage.keys() for stage in shown["stages"])
    stages = {stage["name"]: stage for stage in shown["stages"]}
    assert (shown["status"], stages["again"]["status"]) == ("succeeded", "skipped")
    assert stages["train"]["metrics"] == {"number": 6.0}
    assert stages["score"]["metrics"] == {"total": 8.0}
    assert stages["train"]["outputs"]["model"].keys() == {"type", "digest", "uri"}
    assert (Path(stages["train"]["outputs"]["model"]["uri"]) / "model.json").read_text() == "6"

    # what was planned is what happened, fingerprints included
    outlook = {stage["name"]: stage for stage in after["stages"]}
    assert [outlook[name]["cached"] for name in names] == [True, True, False, True]
    assert outlook["again"]["reason"] == "when train.number > 100 does not hold"
    assert outlook["train"]["fingerprint"] == stages["train"]["fingerprint"]

    graph = read(posttrain("lineage", "toy", "--json"))
    assert {node["stage"] for node in graph["nodes"] if node["kind"] == "stage"} == {"base", "train"}
    assert read(posttrain("lineage", "models:/toy@candidate", "--json")) == graph, "as a recipe spells it"
    by_port = read(posttrain("lineage", "latest:train.model", "--json"))
    assert {node["id"] for node in by_port["nodes"]} <= {node["id"] for node in graph["nodes"]}
    assert {node["stage"] for node in by_port["nodes"] if node["kind"] == "stage"} == {"base", "train"}
    report = read(posttrain("report", "latest", "--json", "--output", str(tmp_path)))
    assert (tmp_path / "index.html").read_text().startswith("<!doctype html>")
    assert report["run_id"] == shown["run_id"]


def test_another_run_is_compared(posttrain: Command) -> None:
    first = read(posttrain("run", RECIPE, "--json", "--new"))["run_id"]
    second = read(posttrain("run", RECIPE, "--set", "factor=60", "--json"))
    assert [stage["cache"] for stage in second["stages"]] == ["hit", "miss", "miss", "miss"]
    compared = read(posttrain("compare", first, "toy-run", "--json"))
    assert {"stage": "train", "name": "factor", "a": 3, "b": 60} in compared["params"]
    assert posttrain("show", first).stdout.startswith(f"{first}: succeeded")
    assert first in posttrain("list", "runs").stdout


def test_a_cached_rerun_adds_neither_a_version_nor_a_report(posttrain: Command, tmp_path: Path) -> None:
    posttrain = toy_command(tmp_path / "store")
    first = read(posttrain("run", RECIPE, "--json"))
    pages = set()
    for _ in range(2):
        again = read(posttrain("run", RECIPE, "--json", "--new"))
        assert {stage["cache"] for stage in again["stages"]} == {"hit", "none"}
        pages.add(read(posttrain("report", again["run_id"], "--json"))["page"])
    (page,) = pages
    assert first["run_id"] in Path(page).read_text() and again["run_id"] not in Path(page).read_text()
    versions = list(open_store(str(tmp_path / "store")).keys("models/toy/0"))
    assert versions == ["models/toy/000001.json"]


def test_a_failure_is_told_and_gone_on_with(posttrain: Command) -> None:
    done = posttrain("run", RECIPE, "--set", "fail=true")
    assert done.returncode == 1
    assert "told to fail" in done.stdout
    assert done.stdout.splitlines()[-1] == "next    run the same command to try again; finished work is kept"
    assert "Traceback" not in done.stdout + done.stderr
    shown = read(posttrain("show", "toy-run", "--json"))
    assert [stage["status"] for stage in shown["stages"]] == ["done", "failed", "blocked", "blocked"]
    assert shown["stages"][1]["error"].endswith("told to fail") and shown["stages"][1]["params"]["fail"] is True


def test_going_on_is_promised_only_where_it_may_help(posttrain: Command) -> None:
    """A first error may be chance; the same again from the same inputs is none; from other inputs it is a first one."""

    def last(*changes: str) -> str:
        return posttrain("run", RECIPE, *(w for c in changes for w in ("--set", c))).stdout.splitlines()[-1]

    assert last("fail=true", "factor=21") == "next    run the same command to try again; finished work is kept"
    mend = "fix the recipe, its data or the code, then run the same command: finished stages are reused"
    assert last("fail=true", "factor=21") == f"next    train failed as before, from the same inputs: {mend}"
    assert last("fail=true", "factor=22") == "next    run the same command to try again; finished work is kept"
    assert mend in last("fail=true", "factor=23", "stages.train.retries=1"), "it was tried twice"
    leaving = ("stages.base.with.leave=true", "stages.base.retries=1", "factor=24")
    assert last(*leaving) == "next    run the same command to continue; finished work is kept", (
        "its process may have been killed"
    )


def test_a_gate_that_does_not_hold(posttrain: Command) -> None:
    done = posttrain("run", RECIPE, "--set", "stages.train.gate=number > 1000", "--set", "factor=5")
    assert done.returncode == 1
    assert "number > 1000" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("next    fix the recipe or its data, then")


def test_a_person_decides(posttrain: Command) -> None:
    command = ("run", RECIPE, "--set", "stages.score.approve=true", "--set", "factor=7")
    waiting = posttrain(*command)
    assert waiting.returncode == 3
    run_id = read(posttrain("show", "toy-run", "--json"))["run_id"]
    assert waiting.stdout.splitlines()[-1] == f"next    posttrain approve {run_id} score"
    waited = read(posttrain("show", "toy-run", "--json"))
    assert [stage["status"] for stage in waited["stages"]] == ["done", "done", "skipped", "waiting"]
    assert waited["stages"][-1]["approval"]["message"] == "Continue?"
    unknown = posttrain("approve", "toy-run", "scroe")
    assert (unknown.returncode, "did you mean 'score'?" in unknown.stderr) == (2, True)
    assert posttrain("approve", "toy-run", "score").returncode == 0
    again = posttrain("approve", "toy-run", "score", "--reject")
    assert (again.returncode, "that decision stands" in again.stderr) == (2, True)
    gone_on = posttrain(*command)
    assert gone_on.returncode == 0
    shown = read(posttrain("show", "toy-run", "--json"))
    assert [stage["status"] for stage in shown["stages"]] == ["done", "done", "skipped", "done"]
    assert shown["seconds"] > waited["seconds"], "both times at it count, the pause between them does not"
    assert shown["stages"][-1]["approval"]["approved"] is True
    assert "when 'train.number > 100' does not hold" in gone_on.stdout


def test_a_stage_that_waits_for_nobody_cannot_be_approved(posttrain: Command) -> None:
    assert posttrain("run", RECIPE).returncode == 0
    done = posttrain("approve", "toy-run", "score")
    assert (done.returncode, done.stderr.endswith("needs no approval: it has no 'approve'\n")) == (2, True)


def test_a_rejected_stage_is_shown_as_failed(posttrain: Command) -> None:
    command = ("run", RECIPE, "--set", "stages.score.approve=true", "--set", "factor=9")
    assert posttrain(*command).returncode == 3
    rejected = posttrain("approve", "toy-run", "score", "--reject")
    again = f"posttrain run {RECIPE} --set stages.score.approve=true --set factor=9 --new"
    assert rejected.stdout.splitlines()[-1] == f"start over with: {again}"
    done = posttrain(*command)
    assert (done.returncode, "--new starts a run that asks again" in done.stdout) == (1, True)
    assert done.stdout.splitlines()[-1] == f"next    {again}", "the same command would fail in the same way"
    assert read(posttrain("show", "toy-run", "--json"))["stages"][-1]["status"] == "failed"


def test_a_process_that_ends_early_with_code_0_is_a_failure_in_one_line(posttrain: Command) -> None:
    set_up = ("--set", "stages.base.with.leave=true", "--set", "stages.base.retries=0", "--set", "factor=11")
    done = posttrain("run", RECIPE, *set_up, "--json")
    stages = {stage["name"]: stage["status"] for stage in json.loads(done.stdout)["stages"]}
    assert (done.returncode, stages["base"]) == (1, "failed")
    message = next(line for line in done.stderr.splitlines() if "failed" in line)
    assert "ended with exit code 0 before the stage was done; log: " in message
    assert message.endswith("; last line: \\x1b[31mso long")


def test_one_stage_from_its_description(posttrain: Command, tmp_path: Path) -> None:
    job = {
        "run_id": "by-hand",
        "recipe": "by-hand",
        "stage": "one",
        "component": "toy-train",
        "params": {"factor": 4},
        "inputs": {},
        "seed": 0,
        "store": str(tmp_path / "store"),
    }
    done = posttrain("stage", "-", input=json.dumps(job))
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "finished"
    assert events[-1]["metrics"] == {"number": 4.0}


def test_a_broken_branch_does_not_stop_the_others(posttrain: Command) -> None:
    done = posttrain("run", "tests/pipelines/recipes/branches.yaml", "--json")
    assert done.returncode == 1
    status = {stage["name"]: stage["status"] for stage in json.loads(done.stdout)["stages"]}
    assert (status["fine"], status["further"]) == ("done", "done")
    assert (status["broken"], status["endless"]) == ("failed", "failed")
    assert done.stderr.count("ValueError: told to fail") >= 3, "the first try and two more"
    assert "retry 2" in done.stderr
    assert "took longer than its timeout of 1 s" in done.stderr
    blocked = [line for line in done.stderr.splitlines() if line.startswith("behind")]
    assert [line.split()[1] for line in blocked] == ["blocked"]
    assert "Traceback" not in done.stdout + done.stderr


def test_sigterm_ends_a_run_like_ctrl_c(posttrain: Command, tmp_path: Path) -> None:
    recipe = tmp_path / "endless.yaml"
    recipe.write_text("name: endless\nstages:\n  base: {uses: toy-train, with: {spin: true}}\n")
    plugin = str(Path(__file__).parents[1] / "plugin")
    store = str(tmp_path / "store")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "run", str(recipe), "--store", store],
        cwd=ROOT,
        env={**os.environ, "POSTTRAIN_LINEAGE": "later", "PYTHONPATH": plugin},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "running" in process.stdout.readline()
    process.terminate()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, ""), out
    shown = read(posttrain("show", "latest", "--json", "--store", store))
    assert shown["status"] == "stopped"
