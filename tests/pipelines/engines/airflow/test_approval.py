"""The task that asks a person, as Airflow runs it: a cached stage asks, and its answer decides about the alias."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from components.runtime.store import open_store
from pipelines.engines.airflow.graphs.drawing import Question
from pipelines.engines.airflow.names import STORE, run_id
from pipelines.engines.airflow.tasks.approval import ApprovalTask
from pipelines.engines.airflow.tasks.stage_task import StageTask
from tests.support.championship import RECIPE, STAGE, Championship

AIRFLOW_RUN, AFTER = "manual__1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Asked(BaseException):
    """Airflow shows a form to a person."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Championship:
    def form(**_: Any) -> None:  # Airflow's server writes it to its database; what follows is Airflow's own
        raise Asked

    monkeypatch.setattr(hitl, "upsert_hitl_detail", form)
    monkeypatch.setenv(STORE, str(tmp_path / "store"))
    store = open_store(str(tmp_path / "store"))
    return Championship.prepare(store, run_id(RECIPE, AIRFLOW_RUN, AFTER), "airflow", tmp_path)


def tasks() -> tuple[ApprovalTask, StageTask]:
    with DAG(RECIPE, schedule=None):
        question = Question("Make this the champion?", None, "reject")
        asks = ApprovalTask(task_id=f"{STAGE}.approve", recipe=RECIPE, stage=STAGE, question=question)
        return asks, StageTask(task_id=STAGE, recipe=RECIPE, stage=STAGE)


def context(task: Any) -> Any:
    instance = SimpleNamespace(id="ti-1", try_number=1, max_tries=0)
    dag_run = SimpleNamespace(run_id=AIRFLOW_RUN, run_after=AFTER)
    return {"ti": instance, "task_instance": instance, "dag_run": dag_run, "task": task, "outlet_events": {}}


def answer(choice: str) -> dict[str, Any]:
    return {"chosen_options": [choice], "params_input": {}, "responded_by_user": {"id": "7", "name": "ann"}}


def test_a_cached_stage_waits_and_moves_the_alias_when_it_is_approved(run: Championship) -> None:
    asks, work = tasks()
    with pytest.raises(Asked):
        asks.execute(context(asks))
    assert run.champion is None
    asks.execute_complete(context(asks), answer("Approve"))
    assert run.champion is None, "the stage's own task registers it"
    result = work.execute(context(work))
    assert (result["cache"], run.champion) == ("hit", run.digest)
    decision = run.store.get(f"approvals/{run.job.run_id}/{STAGE}.json")
    assert decision is not None
    assert [decision[part] for part in ("approved", "by", "engine")] == [True, "ann", "airflow"]
    assert decision["inputs"] == {"model": [run.digest]}
    assert asks.execute(context(asks)) is None, "a task that is cleared asks nobody again"


def test_a_rejection_fails_the_task_and_leaves_the_registry(run: Championship) -> None:
    asks, _ = tasks()
    with pytest.raises(Asked):
        asks.execute(context(asks))
    with pytest.raises(AirflowFailException, match="rejected by a person"):
        asks.execute_complete(context(asks), answer("Reject"))
    with pytest.raises(AirflowFailException, match="rejected by a person"):
        asks.execute(context(asks))
    assert run.champion is None and list(run.store.keys("models/")) == []
