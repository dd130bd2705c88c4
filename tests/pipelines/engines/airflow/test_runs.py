"""Whole runs of a DAG, task by task, against the local engine: same digests, same cache, same refusals."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.records import run_key
from components.runtime.store import open_store
from pipelines.engines.shared.launcher import stage_python
from pipelines.language.synced import commit_of
from tests.pipelines.language.git_sync import GitSync
from tests.support.command_line import digests
from tests.support.dag_runs import ROOT, dag_environment, run_dags

RECIPES = Path(__file__).parent / "recipes"
RUNS: dict[str, dict[str, Any]] = {
    "first": {},
    "second": {},
    "other": {"factor": 5, "limit": 1, "seed": 3, "--set": ["stages.again.with.factor=4"]},
    "larger": {"extra": True},
    "failing": {"fail": True},
    "alarmed": {"--set": ["stages.train.with.explode=true"]},
    "halted": {"--set": ["stages.train.with.explode=true", "stages.train.on_alarm=stop", "seed=4"]},
    "misspelt": {"factr": 5},
    "graph": {"--set": ["stages.train.pool=cpu-large"]},
}
OWN = "own-source"
"""A run of another recipe, whose operator lies in a file."""
PACKAGE = "own-package"
"""A run of another recipe, whose operator lies in a package."""
LEAVING = "leaving"
"""A run that goes on without the arms that fail."""
Done = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a folder with a store of the tests' own, the toy package and the recipes beside this file."""
    sync = GitSync(tmp_path_factory.mktemp("synced"))
    own = RECIPES.parents[1] / "operator_files"
    files = [path for path in own.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    sync.commit({f"recipes/{path.relative_to(own)}": path.read_text() for path in files})
    sync.move_to(sync.commits[0])
    return dag_environment(tmp_path_factory.mktemp("airflow"), RECIPES, sync.link / "recipes")


@pytest.fixture(scope="module")
def done(environment: dict[str, str]) -> Done:
    """What became of each run, by its name."""
    runs = [*(("numbers", conf) for conf in RUNS.values()), (OWN, {}), (PACKAGE, {}), (LEAVING, {})]
    return dict(zip([*RUNS, OWN, PACKAGE, LEAVING], run_dags(environment, runs), strict=True))


def posttrain(environment: dict[str, str], *arguments: str, store: Path | None = None) -> Any:
    """Run the command with --json in the stages' environment."""
    place = ["--store", str(store)] if store else []
    command = [stage_python(), "-m", "pipelines.cli", *arguments, "--json", *place]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def show(environment: dict[str, str], run: dict[str, Any]) -> Any:
    """Return `show --json` of a run."""
    return posttrain(environment, "show", run["values"]["run.plan:return_value"]["run_id"])


def test_a_run_makes_what_the_local_engine_makes(done: Done, environment: dict[str, str], tmp_path: Path) -> None:
    assert done["first"]["state"] == "success"
    here = show(environment, done["first"])
    there = posttrain(environment, "run", "numbers", store=tmp_path / "local")
    assert digests(here) == digests(there)
    kept = ("name", "component", "status", "cache", "fingerprint", "metrics")
    assert [{k: s[k] for k in kept} for s in here["stages"]] == [{k: s[k] for k in kept} for s in there["stages"]]
    assert here["status"] == there["status"] == "succeeded"


def test_a_worker_takes_an_operators_file_from_the_store(
    done: Done, environment: dict[str, str], tmp_path: Path
) -> None:
    assert done[OWN]["state"] == "success"
    here = show(environment, done[OWN])
    assert digests(here) == digests(posttrain(environment, "run", OWN, store=tmp_path / "local"))
    kept = [path.stem for path in Path(environment["POSTTRAIN_STORE"]).glob("code/*.json")]
    assert [digest for digest in kept if f"own_source.py:rows@{digest}" in json.dumps(here)]


def test_a_worker_takes_a_package_from_the_store(done: Done, environment: dict[str, str], tmp_path: Path) -> None:
    assert done[PACKAGE]["state"] == "success"
    here = show(environment, done[PACKAGE])
    there = posttrain(environment, "run", PACKAGE, store=tmp_path / "local")
    assert digests(here) == digests(there)
    assert [one["fingerprint"] for one in here["stages"]] == [one["fingerprint"] for one in there["stages"]]


def test_the_commit_that_git_sync_brought_is_in_the_runs_record(done: Done, environment: dict[str, str]) -> None:
    store = open_store(environment["POSTTRAIN_STORE"])
    (link,) = [folder for folder in environment["POSTTRAIN_RECIPES"].split(os.pathsep) if "synced" in folder]
    runs = [done[name]["values"]["run.plan:return_value"]["run_id"] for name in (PACKAGE, "first")]
    commits = [(store.get(run_key(run)) or {}).get("recipe_commit") for run in runs]
    assert commits == [commit_of(Path(link)), None] and commits[0]


def test_what_was_made_is_not_made_again(done: Done, environment: dict[str, str]) -> None:
    again = show(environment, done["second"])
    assert {stage["cache"] for stage in again["stages"] if stage["status"] == "done"} == {"hit"}
    assert digests(again) == digests(show(environment, done["first"]))


def test_a_stage_whose_condition_does_not_hold_is_skipped_and_holds_nobody_up(done: Done) -> None:
    tasks = done["first"]["tasks"]
    assert (tasks["again"], tasks["more"], tasks["score"]) == ("skipped", "skipped", "success")


def test_parameters_reach_the_stages(done: Done, environment: dict[str, str]) -> None:
    assert done["other"]["tasks"]["again"] == "success"
    stages = {stage["name"]: stage for stage in show(environment, done["other"])["stages"]}
    assert stages["train"]["metrics"] == {"number": 10.0}  # 2 x 5
    assert stages["again"]["metrics"] == {"number": 40.0}  # x 4


def test_a_stage_that_is_left_out_by_default_can_be_asked_for(done: Done, environment: dict[str, str]) -> None:
    assert done["larger"]["tasks"]["more"] == "success"
    assert {stage["name"] for stage in show(environment, done["larger"])["stages"]} == {
        "base", "train", "again", "more", "score"
    }  # fmt: skip


def test_a_failed_stage_fails_the_run_and_the_ledger_says_why(done: Done, environment: dict[str, str]) -> None:
    run = done["failing"]
    assert run["state"] == "failed"
    assert run["tasks"]["train"] == "failed"
    assert run["tasks"]["score"] == "upstream_failed"
    assert run["tasks"]["run.report"] == "success", "the report of a failed run is what a person needs most"
    shown = show(environment, run)
    assert shown["status"] == "failed"
    assert {stage["name"]: stage["status"] for stage in shown["stages"]}["train"] == "failed"


def test_a_run_goes_on_without_the_arms_that_fail(done: Done, environment: dict[str, str], tmp_path: Path) -> None:
    run = done[LEAVING]
    assert run["state"] == "success"
    failed = {f"train-arm-{arm}" for arm in ("raising", "dying", "refused")}
    assert {name for name, state in run["tasks"].items() if state == "skipped"} == failed | {
        name.replace("train", "more") for name in failed
    }
    here, there = show(environment, run), posttrain(environment, "run", LEAVING, store=tmp_path / "local")
    kept = ("name", "status", "cache", "fingerprint", "metrics")
    assert [{k: s[k] for k in kept} for s in here["stages"]] == [{k: s[k] for k in kept} for s in there["stages"]]
    stages = {stage["name"]: stage for stage in here["stages"]}
    assert {name for name, stage in stages.items() if stage["status"] == "failed"} == failed
    assert "told to fail" in stages["train-arm-raising"]["error"] and "exit" in stages["train-arm-dying"]["error"]
    assert "number < 10" in stages["train-arm-refused"]["error"]
    tried = Path(environment["POSTTRAIN_STORE"], "ledger", here["run_id"], "attempts")
    counts = {name: len(list(tried.glob(f"{name}.*.json"))) for name in sorted(failed)}
    assert counts == {"train-arm-dying": 2, "train-arm-raising": 2, "train-arm-refused": 1}, "retries come first"


def test_an_alarm_is_in_the_result_of_the_task_and_stops_the_run_if_the_recipe_says_so(
    done: Done, environment: dict[str, str]
) -> None:
    told = "alarm exploded since step 1: the number is 1e+06"
    assert done["alarmed"]["state"] == "success"
    assert done["alarmed"]["values"]["train:return_value"]["alarms"] == [told]
    assert {name: done["halted"]["tasks"][name] for name in ("train", "score")} == {
        "train": "failed",
        "score": "upstream_failed",
    }
    halted = {stage["name"]: stage for stage in show(environment, done["halted"])["stages"]}["train"]
    assert halted["error"] == f"stage 'train': stopped by {told}"
    assert [alarm["helps"] for alarm in halted["alarms"]] == ["lower factor (3)"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("misspelt", "unknown parameter 'factr'; did you mean 'factor'?"),
        ("graph", "stage 'train': another pool"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(done: Done, name: str, said: str) -> None:
    run = done[name]
    assert run["state"] == "failed"
    assert run["tasks"]["run.plan"] == "failed"
    assert said in run["values"]["run.plan:refused"]
    assert set(run["tasks"].values()) <= {"failed", "upstream_failed", "skipped"}


def test_each_output_is_an_asset_that_says_what_made_it(done: Done, environment: dict[str, str]) -> None:
    outputs = done["first"]["values"]["train:return_value"]["outputs"]
    stages = {stage["name"]: stage for stage in show(environment, done["first"])["stages"]}
    assert outputs == {"model": stages["train"]["outputs"]["model"]["digest"]}
    events = done["first"]["assets"]
    event = events["posttrain://recipes/numbers/train/model"]
    run_id = done["first"]["values"]["run.plan:return_value"]["run_id"]
    assert (event["digest"], event["lineage"]) == (outputs["model"], f"posttrain lineage {run_id}:train.model")
    made = [stage for stage in stages.values() if stage["status"] == "done" and stage["outputs"]]
    tracked = {(s["name"], port) for s in made for port, o in s["outputs"].items() if o["type"] in ("Model", "Dataset")}
    assert {tuple(uri.split("/")[-2:]) for uri in events if "/recipes/" in uri} == tracked
