"""A run that moves from the local engine to Airflow and back, in the middle of a stage: equal digests."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.runtime.checkpoints.moves import ask, asked, hand_over
from components.runtime.store import open_store
from pipelines.engines.shared.launcher import stage_python
from tests.pipelines.engines.airflow.test_forks import RECIPES, posttrain
from tests.support.command_line import caches, digests
from tests.support.dag_runs import ROOT, dag_environment, run_dags
from tests.support.moving import LIMIT_SECONDS, counting, until

STEPS = "stages.count.with.steps=300"


def test_local_airflow_local(tmp_path: Path) -> None:
    environment = dag_environment(tmp_path, RECIPES)
    straight = posttrain(
        dag_environment(tmp_path / "straight", RECIPES), "run", str(RECIPES / "counting.yaml"), "--set", STEPS
    )
    store = open_store(environment["POSTTRAIN_STORE"])
    command = [stage_python(), "-m", "pipelines.cli", "run", str(RECIPES / "counting.yaml"), "--set", STEPS]
    here = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    first = until(lambda: counting(store, set()))
    ask(store, first, "airflow")
    told, _ = here.communicate(timeout=LIMIT_SECONDS)
    assert here.returncode == 130 and f"run     {first}: stopped" in told
    assert "move    to engine airflow" in told and "failed" not in told
    (one,) = hand_over(store, first, tmp_path / "a", pytest.fail, wait_seconds=LIMIT_SECONDS)

    before = set(store.names("ledger/"))
    with ThreadPoolExecutor() as pool:
        dags = pool.submit(run_dags, environment, [("counting", {"--set": [STEPS, f"moved={first}"]})])
        second = until(lambda: counting(store, before) if not dags.done() else dags.result())
        ask(store, second, "local")
        (run,) = dags.result()
    assert (run["state"], run["tasks"]["count"], run["tasks"]["score"]) == ("failed", "failed", "upstream_failed")
    record = asked(store, first)
    assert record is not None and record["as"] == second
    shown = posttrain(environment, "show", second)
    assert (shown["status"], shown["moved"]) == ("stopped", first)
    assert {stage["name"]: stage["error"] for stage in shown["stages"]} == {"base": None, "count": None, "score": None}

    last = posttrain(environment, "move", second, "--to", "local")
    (two,) = (asked(store, second) or {})["states"]
    assert 0 < one.step < two["step"] < 300
    assert last["status"] == "succeeded" and last["moved"] == second
    assert digests(last) == digests(straight)
    assert caches(last) == {"base": "hit", "count": "miss", "score": "miss"}
