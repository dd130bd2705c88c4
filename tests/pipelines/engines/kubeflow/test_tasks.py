"""Whole pipelines, container by container, with the local engine beside them: same digests, same refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.records import asked_key
from components.runtime.ledger.shown import show_json
from components.runtime.store import open_store
from pipelines.engines.driver.here import drive_here
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.record import read
from pipelines.engines.kubeflow.ending import close
from pipelines.engines.kubeflow.retried import retried
from pipelines.engines.kubeflow.stage_run import StageRun
from pipelines.engines.shared.approvals import record_decision
from pipelines.engines.shared.launcher import stage_python
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.runs import begin_run
from tests.pipelines.engines.kubeflow.examples import ROOT, project_environment
from tests.support.command_line import digests
from tests.support.pipeline_runner import PipelineRun, load_pipeline

RECIPES = ROOT / "tests" / "pipelines" / "engines" / "airflow" / "recipes"
OWN_SOURCE = RECIPES.parents[1] / "operator_files" / "own-source.yaml"
OWN_PACKAGE = OWN_SOURCE.with_name("own-package.yaml")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a folder with a store, the toy package, and pipelines of its recipes that were compiled there."""
    folder = tmp_path_factory.mktemp("tasks")
    environment = project_environment(folder)
    code = "import sys; from pathlib import Path; from tests.pipelines.engines.kubeflow.examples import compiled\n"
    code += "for path in sys.argv[2:]: Path(sys.argv[1], Path(path).name).write_text(compiled(path))"
    paths = [*(str(RECIPES / f"{name}.yaml") for name in ("numbers", "asking", "leaving")), str(OWN_SOURCE)]
    subprocess.run([sys.executable, "-c", code, str(folder), *paths], env={**os.environ, **environment}, check=True)
    return environment


def pipeline_run(project: dict[str, str], recipe: str, run_id: str, **arguments: Any) -> PipelineRun:
    """Return a run of a compiled recipe that has not begun."""
    folder = Path(project["POSTTRAIN_STORE"]).parent
    spec = load_pipeline((folder / f"{recipe}.yaml").read_text())
    given = {"posttrain_store": project["POSTTRAIN_STORE"], **arguments}
    return PipelineRun(spec, folder / "work", run_id, given, environment=project)


def shown(project: dict[str, str], kubeflow_run: str) -> dict[str, Any]:
    """Return the `show --json` of a run."""
    store = open_store(project["POSTTRAIN_STORE"])
    return show_json(load_run(store, store.get(f"kubeflow/{kubeflow_run}.json")["run_id"]))


def test_a_run_makes_what_the_local_engine_makes(project: dict[str, str], tmp_path: Path) -> None:
    run = pipeline_run(project, "numbers", "k-first", factor=5.0)  # numbers come as JSON has them
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    found = shown(project, "k-first")
    local = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "run", str(RECIPES / "numbers.yaml"), "--set", "factor=5", "--json"],
        env={**os.environ, **project, "POSTTRAIN_STORE": str(tmp_path / "store")},
        capture_output=True,
        text=True,
    )
    assert local.returncode == 0, local.stderr
    assert digests(found) == digests(json.loads(local.stdout))
    assert {stage["name"]: stage["status"] for stage in found["stages"]} == {
        "base": "done",
        "train": "done",
        "again": "skipped",
        "score": "done",
    }
    entry = load_run(open_store(project["POSTTRAIN_STORE"]), found["run_id"]).entry
    assert (found["status"], entry["engine"], entry["params"]["factor"]) == ("succeeded", "kubeflow", 5)
    assert entry["command"] == "posttrain run numbers --set factor=5 --engine kubeflow"
    pointers = {name: task.artifacts for name, task in run.tasks.items()}
    model = pointers["train"]["model"]
    assert model["metadata"]["digest"] == digests(found)["train.model"]
    assert f"/objects/{model['metadata']['digest']}/" in model["metadata"]["uri"]
    assert model["uri"].startswith("minio://")  # Kubeflow's own: it uploads only what it named itself
    metrics = pointers["score"]["metrics"]["metadata"]
    assert metrics["total"] == 12.0
    assert {type(value) for value in metrics.values()} <= {int, float}, "each is a row when runs are compared"
    pages = run.tasks["posttrain-end"].written
    assert found["run_id"] in pages["report"] and pages["report"].startswith("<!doctype html>")
    assert "| train | done | miss |" in pages["links"] and "| again | skipped |" in pages["links"]
    assert "does not hold" in pointers["again"]["model"]["metadata"]["skipped"]
    assert pointers["more"]["model"]["metadata"]["skipped"] == "the run's parameters leave it out"


def test_an_operator_in_a_file_travels_in_the_pipeline(project: dict[str, str], tmp_path: Path) -> None:
    run = pipeline_run(project, "own-source", "k-own", count=4.0)
    run.python = stage_python()  # it has the libraries of the stages' images
    bundle = run.pipeline["deploymentSpec"]["executors"]["exec-posttrain-plan"]["container"]["args"][1]
    assert sorted(json.loads(bundle)["code"]["./own_source.py"]["files"]) == ["letters.py", "own_source.py"]
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    local = subprocess.run(
        [run.python, "-m", "pipelines.cli", "run", str(OWN_SOURCE), "--set", "count=4", "--json"],
        env={**os.environ, **project, "POSTTRAIN_STORE": str(tmp_path / "store")},
        capture_output=True,
        text=True,
    )
    assert local.returncode == 0, local.stderr
    assert digests(shown(project, "k-own")) == digests(json.loads(local.stdout))


def test_a_package_travels_in_the_store_and_the_pipeline_names_its_digest(
    project: dict[str, str], tmp_path: Path
) -> None:
    """The pipeline is compiled where the package lies; its tasks see the store alone."""
    folder = Path(project["POSTTRAIN_STORE"]).parent
    shutil.copytree(OWN_PACKAGE.parent, tmp_path / "mine")
    own = tmp_path / "mine" / OWN_PACKAGE.name
    command = [sys.executable, "-m", "pipelines.cli", "compile", str(own), "--store", project["POSTTRAIN_STORE"]]
    variables = {**os.environ, **project}
    subprocess.run([*command, "-o", str(folder / "own-package.yaml")], env=variables, check=True)
    local = subprocess.run(
        [stage_python(), "-m", "pipelines.cli", "run", str(own), "--json", "--store", str(tmp_path / "store")],
        env=variables, capture_output=True, text=True,
    )  # fmt: skip
    assert local.returncode == 0, local.stderr
    shutil.rmtree(tmp_path / "mine")

    run = pipeline_run(project, "own-package", "k-package")
    run.python = stage_python()
    bundle = run.pipeline["deploymentSpec"]["executors"]["exec-posttrain-plan"]["container"]["args"][1]
    digest = json.loads(bundle)["trees"]["./own_package"]["digest"]
    assert (open_store(project["POSTTRAIN_STORE"]).fetch(digest) / "own_package" / "sources.py").is_file()
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    here = json.loads(local.stdout)
    there = shown(project, "k-package")
    assert digests(there) == digests(here)
    assert [one["fingerprint"] for one in there["stages"]] == [one["fingerprint"] for one in here["stages"]]


def test_local_data_travel_in_the_store_and_give_the_local_fingerprints(
    project: dict[str, str], tmp_path: Path
) -> None:
    """What `posttrain run --engine kubeflow` does first: data go to the store, and the pipeline names digests."""
    mine = tmp_path / "mine"
    mine.mkdir()
    row = '{"prompt": "say %s", "answer": "%s"}\n'
    (mine / "rows.jsonl").write_text("".join(row % (word, word) for word in ("ab", "cd", "ef")))
    (mine / "heldout.jsonl").write_text(row % ("zz", "zz"))
    own = mine / "local-data.yaml"
    own.write_text(
        "name: local-data\nstages:\n  rows:\n    uses: curate\n    in: {against: [./heldout.jsonl]}\n"
        "    with: {dedup: {near: null}, sources: [{domain: x, source: {name: jsonl, path: rows.jsonl}}]}\n"
    )
    local = subprocess.run(
        [stage_python(), "-m", "pipelines.cli", "run", str(own), "--json", "--store", str(tmp_path / "store")],
        env={**os.environ, **project}, capture_output=True, text=True,
    )  # fmt: skip
    assert local.returncode == 0, local.stderr
    code = (
        "import sys; from dataclasses import replace; from pathlib import Path\n"
        "from components.runtime.store import open_store\n"
        "from pipelines.engines.kubeflow.compiler.compiler import compile_recipe\n"
        "from pipelines.engines.kubeflow.compiler.settings import Settings\n"
        "from pipelines.engines.kubeflow.client.submit import request\n"
        "from pipelines.plan.uploads import local_data\nfrom pipelines.recipe.recipe import load_recipe\n"
        "from pipelines.runs.uploading import upload\n"
        "recipe, store = load_recipe(sys.argv[1]), open_store(sys.argv[2])\ndata = local_data(recipe)\n"
        "drawn, _ = request(replace(recipe, uploads=tuple(one.upload for one in data)), store)\nupload(data, store)\n"
        "Path(sys.argv[3]).write_text(compile_recipe(drawn, Settings.read(), store=store.uri))\n"
    )
    target = Path(project["POSTTRAIN_STORE"]).parent / "local-data.yaml"
    arguments = [sys.executable, "-c", code, str(own), project["POSTTRAIN_STORE"], str(target)]
    subprocess.run(arguments, env={**os.environ, **project}, check=True)
    shutil.rmtree(mine)

    run = pipeline_run(project, "local-data", "k-data")
    run.python = stage_python()
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    here, there = json.loads(local.stdout), shown(project, "k-data")
    assert digests(there) == digests(here)
    assert [one["fingerprint"] for one in there["stages"]] == [one["fingerprint"] for one in here["stages"]]


def test_a_refused_stage_is_worked_for_once_and_the_run_ends_as_failed(project: dict[str, str]) -> None:
    run = pipeline_run(project, "numbers", "k-gate", factor=1, posttrain_set=["stages.train.gate=number >= 99"])
    assert run.run() == "FAILED"
    found = shown(project, "k-gate")
    assert found["status"] == "failed"
    assert run.tasks["posttrain-end"].state == "SUCCEEDED"
    assert "number >= 99" in run.tasks["train"].log


def test_an_alarm_is_in_the_log_and_stops_the_run_if_the_recipe_says_so(project: dict[str, str]) -> None:
    change = ["stages.train.with.explode=true", "stages.train.on_alarm=stop"]
    run = pipeline_run(project, "numbers", "k-alarm", posttrain_set=change)
    assert run.run() == "FAILED"
    lines = run.tasks["train"].log.splitlines()
    assert "alarm exploded since step 1: the number is 1e+06" in lines
    assert "usually helps: lower factor (3)" in lines
    found = {stage["name"]: stage for stage in shown(project, "k-alarm")["stages"]}["train"]
    assert (found["status"], [alarm["name"] for alarm in found["alarms"]]) == ("failed", ["exploded"])


def test_a_run_goes_on_without_the_arms_that_fail(project: dict[str, str]) -> None:
    run = pipeline_run(project, "leaving", "k-leaving")
    assert run.run() == "SUCCEEDED", [task.log for task in run.tasks.values()]
    found = shown(project, "k-leaving")
    stages = {stage["name"]: stage for stage in found["stages"]}
    failed = {name for name, stage in stages.items() if stage["status"] == "failed"}
    assert failed == {f"train-arm-{arm}" for arm in ("raising", "dying", "refused")}
    assert {stages[name.replace("train", "more")]["status"] for name in failed} == {"skipped"}
    assert stages["all"]["metrics"]["total"] == 12, "3 x 2 x 2 of the arm that is left"
    tried = Path(project["POSTTRAIN_STORE"], "ledger", found["run_id"], "attempts")
    counts = {name: len(list(tried.glob(f"{name}.*.json"))) for name in sorted(failed)}
    assert counts == {"train-arm-dying": 2, "train-arm-raising": 2, "train-arm-refused": 1}, "retries come first"


def test_a_stage_whose_last_try_was_lost_with_its_pod_goes_on(
    project: dict[str, str], cluster: None, toy_catalog: None, tmp_path: Path
) -> None:
    text = "name: lost\nstages:\n  base: {uses: pretrain, with: {layers: 1}, on_failure: skip, retries: 1}\n"
    (tmp_path / "lost.yaml").write_text(text)
    store = open_store(str(tmp_path / "store"))
    begin_run(store, build_plan(load_recipe(str(tmp_path / "lost.yaml")), store.uri, "lost-1"), engine="kubeflow")
    run = StageRun.find(store.uri, "lost-1", "base")
    clock = Clock(sleep=lambda seconds: None)

    def lost() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive_here(run, lost, clock=clock)
    codes = [1, 1]
    assert drive_here(run, lambda: codes.pop(), retried=True, clock=clock) == 0
    assert [str(one.cause) for one in read(store, "lost-1", "base").tries] == ["node lost", "failed", "failed"]
    [stage] = show_json(load_run(store, "lost-1"))["stages"]
    assert stage["status"] == "failed" and not codes, "its own failures are counted apart"


def test_what_would_be_another_graph_is_refused_before_any_stage(project: dict[str, str]) -> None:
    run = pipeline_run(project, "numbers", "k-graph", posttrain_set=["stages.train.retries=3"])
    assert run.run() == "FAILED"
    assert set(run.tasks) == {"posttrain-plan", "posttrain-end"}
    refused = open_store(project["POSTTRAIN_STORE"]).get("kubeflow/k-graph.json")["refused"]
    assert "stage 'train': another retries" in refused
    assert "no run had begun" in run.tasks["posttrain-end"].log


def test_a_person_is_waited_for_and_for_a_cached_stage_too(project: dict[str, str]) -> None:
    store = open_store(project["POSTTRAIN_STORE"])
    for name, approved in (("k-asking", True), ("k-cached", False)):
        run = pipeline_run(project, "asking", name)
        thread = Thread(target=run.run, daemon=True)
        thread.start()
        deadline = time.monotonic() + 240
        while not (known := store.get(f"kubeflow/{name}.json")) or not store.get(asked_key(known["run_id"], "asked")):
            thread.join(0.2)
            assert thread.is_alive() and time.monotonic() < deadline, [task.log for task in run.tasks.values()]
        assert run.tasks["asked-approve"].state == "RUNNING"
        assert record_decision(store, known["run_id"], "asked", approved=approved, by="a test")
        thread.join(240)
        assert run.state == ("SUCCEEDED" if approved else "FAILED")
        assert f"posttrain approve {known['run_id']} asked" in run.tasks["asked-approve"].log
        shown_stages = {stage["name"]: stage for stage in shown(project, name)["stages"]}
        assert shown_stages["base"]["cache"] == ("miss" if approved else "hit")
        assert shown_stages["asked"]["approval"]["engine"] == "kubeflow"


def test_retries_of_kubeflow_end_at_once_and_a_persons_retry_works(
    project: dict[str, str], cluster: None, toy_catalog: None, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text("name: one\nstages:\n  base: {uses: pretrain, with: {layers: 1}}\n")
    store = open_store(str(tmp_path / "store"))
    begin_run(store, build_plan(load_recipe(str(tmp_path / "one.yaml")), store.uri, "one-1"), engine="kubeflow")
    run = StageRun.find(store.uri, "one-1", "base")
    seen: list[int] = []
    for again in (False, True, True, False):
        assert drive_here(run, lambda: seen.append(1) or 2, retried=again) == 2
    assert len(seen) == 2
    assert retried({"KFP_RETRY_INDEX": "1"}) and not retried({"KFP_RETRY_INDEX": "0"}) and not retried({})


AWAY = "failed to create an execution: rpc error: connection refused"
"""Kubeflow's driver, whose artifact store could not be reached: the stage's pod never was."""


@pytest.mark.parametrize(
    ("message", "recorded", "advice"),
    [
        ("OOMKilled", "its pod was killed, out of memory by the signs: OOMKilled", True),
        ("Error (exit code 137)", "out of memory by the signs: Error (exit code 137)", True),
        (AWAY, f"before the stage could say why (its pod, or Kubeflow's own driver): {AWAY}", False),
        ("", "Kubeflow gives no reason; its page of the run has the log", False),
    ],
)
def test_a_task_that_failed_without_a_word_is_recorded_for_the_stage_that_was_next(
    project: dict[str, str],
    cluster: None,
    toy_catalog: None,
    tmp_path: Path,
    message: str,
    recorded: str,
    advice: bool,
) -> None:
    (tmp_path / "two.yaml").write_text(
        "name: two\nstages:\n  base: {uses: pretrain, with: {layers: 1}}\n  data: {uses: curate, after: base}\n"
    )
    store = open_store(str(tmp_path / "store"))
    begin_run(store, build_plan(load_recipe(str(tmp_path / "two.yaml")), store.uri, "two-1"), engine="kubeflow")
    assert close(store, "two-1", "FAILED", message) == "failed"
    failures = load_run(store, "two-1").failures
    assert set(failures) == {"base"}
    assert recorded in failures["base"]["error"]
    assert failures["base"]["error"].endswith("; take a larger pool") == advice
    assert close(store, "two-1", "CANCELED", "") == "stopped"
