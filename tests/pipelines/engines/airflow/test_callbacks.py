"""A stage that failed is a failure in the ledger, even if its task was killed and could not say so."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.contract.job import Job
from components.runtime.ledger.records import failure_key, save_job
from components.runtime.store import Store, open_store
from pipelines.engines.airflow.names import run_id_of
from pipelines.engines.airflow.tasks.callbacks import stage_failed

DAG_RUN = SimpleNamespace(dag_id="toy", run_id="manual__1", run_after=datetime(2026, 11, 21, tzinfo=UTC), conf={})
RUN = run_id_of("toy", DAG_RUN)
CONTEXT = {"dag_run": DAG_RUN, "task": SimpleNamespace(recipe="toy", stage="base")}


@pytest.fixture
def store(toy_catalog: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with the job of one stage, as a run's first task leaves it."""
    store = open_store(str(tmp_path / "store"))
    monkeypatch.setenv("POSTTRAIN_STORE", store.uri)
    job = {"recipe": "toy", "stage": "base", "component": "pretrain", "params": {"layers": 1}, "inputs": {}, "seed": 0}
    save_job(store, Job.model_validate({**job, "run_id": RUN, "store": store.uri}))
    return store


def test_a_killed_task_is_recorded_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        stage_failed(CONTEXT)
    assert store.get(failure_key(RUN, "base"))["error"] == "its task was killed before the stage was done"
    assert f"stage base of run {RUN} failed: its task was killed" in caplog.text


def test_what_the_stage_said_itself_stands(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(failure_key(RUN, "base"), {"error": "no data"})
    with caplog.at_level(logging.ERROR):
        stage_failed(CONTEXT)
    assert store.get(failure_key(RUN, "base")) == {"error": "no data"}
    assert f"stage base of run {RUN} failed: no data" in caplog.text


def test_without_a_store_it_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTTRAIN_STORE", raising=False)
    stage_failed(CONTEXT)
    assert "the ledger cannot be asked why: set POSTTRAIN_STORE" in caplog.text
