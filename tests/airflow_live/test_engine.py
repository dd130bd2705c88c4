"""Runs through a whole Airflow: the command line, a person's answers, and recipes that start one another."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.records import approval_key
from components.runtime.lineage.registry import find_version
from components.runtime.store import open_store
from tests.support.command_line import caches, digests
from tests.support.live_airflow import ROOT, Live, until

pytestmark = pytest.mark.airflow


def test_it_is_healthy_and_answers_on_this_machine_only(live: Live) -> None:
    print(f"healthy after {live.seconds:.0f} s")
    assert set(live.client.health().values()) == {"healthy"}
    port = int(live.client.account.url.rpartition(":")[2])
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {fields[1] for fields in sockets if fields[3] == "0A" and int(fields[1].partition(":")[2], 16) == port}
    assert listening == {f"0100007F:{port:04X}"}


def test_the_command_line_gives_what_the_local_engine_gives(live: Live, tmp_path: Path) -> None:
    shown, _ = live.run("numbers", "--set", "factor=5")
    there = live.local(tmp_path / "store", "numbers", "--set", "factor=5")
    assert (shown["status"], digests(shown)) == ("succeeded", digests(there))
    assert shown.keys() == there.keys()
    again, said = live.run("numbers", "--set", "factor=5")
    done = {stage["name"] for stage in again["stages"] if stage["status"] == "done"}
    assert {caches(again)[name] for name in done} == {"hit"}
    assert "cached" in said, "the view tells what it sees"


def test_a_failed_run_has_the_local_engines_exit_code_and_message(live: Live) -> None:
    shown, said = live.run("numbers", "--set", "fail=true", code=1)
    assert shown["status"] == "failed"
    assert "told to fail" in said


def test_a_value_out_of_range_is_refused_before_there_is_a_run(live: Live) -> None:
    with pytest.raises(InputError, match="99 is greater than the maximum of 9"):
        live.trigger("numbers", factor=99)


def test_a_name_that_airflow_lets_pass_is_refused_by_the_first_task(live: Live) -> None:
    path = live.trigger("numbers", factr=2)
    assert live.wait(path, "success", "failed") == "failed"
    refused = live.client.get(f"{path}/taskInstances/run.plan/xcomEntries/refused")["value"]
    assert "unknown parameter 'factr'; did you mean 'factor'?" in refused


@pytest.mark.parametrize(("answer", "factor"), [("Approve", 8), ("Reject", 9)])
def test_a_person_answers_in_airflow(live: Live, answer: str, factor: int) -> None:
    path = live.trigger("asking", factor=factor)
    approved = answer == "Approve"
    assert live.answer(path, "asked.approve", answer) == ("success" if approved else "failed")
    assert live.state(path, "asked") == ("success" if approved else "upstream_failed")
    run_id = live.client.get(f"{path}/taskInstances/run.plan/xcomEntries/return_value")["value"]["run_id"]
    decision = open_store(live.environment["POSTTRAIN_STORE"]).get(approval_key(run_id, "asked"))
    assert decision is not None
    assert (decision["approved"], decision["by"]) == (approved, live.client.account.user)


@pytest.mark.parametrize(("recipe", "state"), [("clock-approve", "success"), ("clock-reject", "failed")])
def test_the_clock_answers_where_nobody_does(live: Live, recipe: str, state: str) -> None:
    path = live.trigger(recipe)
    assert live.wait(path, "success", "failed") == state
    assert live.state(path, "asked") == ("success" if state == "success" else "upstream_failed")


def test_a_cached_stage_asks_too(live: Live) -> None:
    path = live.trigger("asking", factor=8)  # made by the test above, whose approval was of another run
    assert live.answer(path, "asked.approve", "Reject") == "failed"
    assert live.state(path, "asked") == "upstream_failed"


def test_a_run_that_waits_for_a_person_ends_the_command_with_its_own_code(live: Live) -> None:
    shown, said = live.run("asking", "--set", "factor=6", code=3)
    assert "needs approval" in said
    assert [stage["status"] for stage in shown["stages"]] == ["done", "pending"]
    done = subprocess.run(live.command("approve", shown["run_id"], "asked"), cwd=ROOT, env=live.environment, text=True)
    assert done.returncode == 0
    until(lambda: live.show(shown["run_id"])["status"] == "succeeded", "the run's going on")


def test_a_new_champion_starts_the_recipes_that_name_it(live: Live) -> None:
    assert live.client.all("dags/heir/dagRuns", "dag_runs") == []
    shown, _ = live.run("crown")
    model = {stage["name"]: stage for stage in shown["stages"]}["take"]["outputs"]["model"]
    champion = find_version(open_store(live.environment["POSTTRAIN_STORE"]), "crown@champion")
    assert champion is not None and champion["digest"] == model["digest"]
    until(lambda: live.client.all("dags/heir/dagRuns", "dag_runs"), "a run of heir")
    [run] = live.client.all("dags/heir/dagRuns", "dag_runs")
    assert run["run_type"] == "asset_triggered"
    path = f"dags/heir/dagRuns/{quote(run['dag_run_id'])}"
    assert live.wait(path, "success", "failed") == "success"
    events = live.client.all("assets/events", "asset_events", source_dag_id="crown")
    extra = {event["name"]: event["extra"] for event in events}["crown@champion"]
    assert (extra["digest"], extra["lineage"]) == (model["digest"], "posttrain lineage crown@champion")


def test_a_task_links_to_its_run_in_mlflow(live: Live) -> None:
    until(lambda: _mlflow_answers(live), "MLflow's page")
    path = live.trigger("numbers", factor=7)
    assert live.wait(path, "success", "failed") == "success"
    page = urlsplit(live.client.get(f"{path}/taskInstances/train/links")["extra_links"]["MLflow"])
    assert page.netloc == urlsplit(_mlflow(live)).netloc
    mlflow_run = page.fragment.partition("?")[0].rpartition("/")[2]
    address = f"{_mlflow(live)}/api/2.0/mlflow/runs/get?run_id={mlflow_run}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        run = json.load(answer)["run"]
    assert {tag["key"]: tag["value"] for tag in run["data"]["tags"]}["posttrain.stage"] == "train"


def _mlflow(live: Live) -> str:
    line = next(line for line in (live.folder / "up.log").read_text().splitlines() if line.startswith("MLflow:"))
    return line.split()[1]


def _mlflow_answers(live: Live) -> bool:
    try:
        with urllib.request.urlopen(f"{_mlflow(live)}/health", timeout=5):
            return True
    except OSError:
        return False
