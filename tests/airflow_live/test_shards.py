"""Sixteen shards by a real scheduler: parallel tasks, the bytes of one stage alone, and a kill of one shard."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.stages.test_curate_streamed import drawn_rows
from tests.support.command_line import caches, digests
from tests.support.live_airflow import Live
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.airflow
ROWS, SHARDS = 4000, 16
ONE_STAGE = ("--set", "stages.corpus.with.shards=null")


def rows_file(folder: Path, seed: int) -> Path:
    return write_jsonl(folder / "in", drawn_rows(ROWS, seed), name="rows.jsonl") / "rows.jsonl"


def spans(live: Live, run_id: str) -> dict[str, tuple[datetime, datetime]]:
    """Return when each shard's task began and ended in Airflow's newest run of the recipe."""
    runs = live.client.all("dags/sharded/dagRuns", "dag_runs")
    newest = max(runs, key=lambda run: run["run_after"])
    tasks = live.client.all(f"dags/sharded/dagRuns/{newest['dag_run_id']}/taskInstances", "task_instances")
    assert {task["state"] for task in tasks} == {"success"}, run_id
    shards = [task for task in tasks if "-shard-" in task["task_id"]]
    return {
        task["task_id"]: (datetime.fromisoformat(task["start_date"]), datetime.fromisoformat(task["end_date"]))
        for task in shards
    }


def overlap(times: dict[str, tuple[datetime, datetime]]) -> int:
    """Return how many were at work at the same time, at most."""
    return max(sum(began <= moment < ended for began, ended in times.values()) for moment, _ in times.values())


def test_sixteen_shards_give_the_bytes_of_one_stage(live: Live, tmp_path: Path) -> None:
    rows = f"rows={rows_file(tmp_path, 0)}"
    began = time.monotonic()
    shown, _ = live.run("sharded", "--set", rows)
    took = time.monotonic() - began
    times = spans(live, shown["run_id"])
    assert len(times) == SHARDS and overlap(times) > 1
    print(f"{ROWS} rows in {SHARDS} shards: {took:.0f} s, at most {overlap(times)} tasks at once")
    alone = live.local(tmp_path / "store", "sharded", "--set", rows, *ONE_STAGE)
    assert digests(shown)["corpus.dataset"] == digests(alone)["corpus.dataset"]
    assert digests(shown)["after.dataset"] == digests(alone)["after.dataset"]
    stages: dict[str, Any] = {stage["name"]: stage for stage in shown["stages"]}
    drawn = sum(stages[name]["metrics"]["num_drawn"] for name in times)
    corpus = stages["corpus"]["metrics"]
    assert drawn == corpus["num_drawn"] == corpus["num_rows"] + corpus["num_dropped"] == ROWS
    assert set(caches(shown).values()) == {"miss"}


def test_a_killed_shard_is_tried_again_and_no_other(live: Live, tmp_path: Path) -> None:
    flag, victim = tmp_path / "killed", "corpus-shard-07"
    rows = [{"prompt": f"{n} + 1 =", "answer": str(n + 1), "flag": ""} for n in range(480)]
    rows[235]["flag"] = str(flag)  # of part 23, the second of shard 7
    path = write_jsonl(tmp_path / "in", rows, name="rows.jsonl") / "rows.jsonl"
    run = live.trigger("sharded-killed", rows=str(path))
    assert live.wait(run, "success", "failed") == "success"
    assert flag.exists()
    tasks = live.client.all(f"{run}/taskInstances", "task_instances")
    tries = {task["task_id"]: task["try_number"] for task in tasks if "-shard-" in task["task_id"]}
    assert tries == {name: 2 if name == victim else 1 for name in tries} and len(tries) == SHARDS
    run_id = live.client.get(f"{run}/taskInstances/run.plan/xcomEntries/return_value")["value"]["run_id"]
    alone = live.local(tmp_path / "store", "sharded-killed", "--set", f"rows={path}", *ONE_STAGE)
    assert digests(live.show(run_id))["corpus.dataset"] == digests(alone)["corpus.dataset"]
