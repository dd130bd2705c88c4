"""A run that has spent its budget ends at a step's border; with a higher one it goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Budget, Job
from components.runtime.costs.attempts import Attempt, put_attempt
from components.runtime.costs.spending import Spending, spent
from components.runtime.job.process import REFUSED
from components.runtime.ledger.records import run_key, stage_key
from components.runtime.store import Store, open_store
from tests.runtime.checkpoints.test_fork_kills import prepare, run, start

SECOND = {"pool": "cpu", "cpus": 1, "gpus": 0, "price_per_hour": 3600.0, "currency": "EUR"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def priced(store: Store, run_id: str, rate: dict[str, Any] = SECOND, **facts: str) -> None:
    """Have the stage of a run cost a EUR a second."""
    stages = [{"name": "count", "rate": rate}]
    store.put(run_key(run_id), {"run_id": run_id, "recipe": "test", "stages": stages, **facts})


def attempt(store: Store, run_id: str, seconds: float, number: int) -> None:
    record = Attempt.model_validate(
        {"run_id": run_id, "stage": "count", "attempt": f"a-{number}", "started": "2026-11-26T00:00:00Z"}
        | {"seconds": seconds, "cpu_seconds": 0, "pool": "cpu", "nodes": 1, "processes": 1, "gpus": 0, "cpus": 1}
    )
    put_attempt(store, record)


def test_all_attempts_count_also_where_the_run_came_from(store: Store) -> None:
    priced(store, "first")
    priced(store, "second", moved="first")
    attempt(store, "first", 2.0, 1)
    attempt(store, "second", 3.0, 2)
    attempt(store, "second", 4.5, 3)
    assert spent(store, "first", "EUR") == pytest.approx(2.0)
    assert spent(store, "second", "EUR") == pytest.approx(9.5)
    assert spent(store, "second", "USD") == spent(store, "unknown", "EUR") == 0


def test_runs_that_point_at_each_other_end(store: Store) -> None:
    priced(store, "a", moved="b")
    priced(store, "b", moved="a")
    attempt(store, "a", 1.0, 1)
    assert spent(store, "a", "EUR") > 0


def test_a_run_ends_at_a_border_and_goes_on_with_a_higher_budget(store: Store, tmp_path: Path) -> None:
    straight = run(open_store(str(tmp_path / "other")), "straight")
    priced(store, "small")
    prepare(store, "small", budget=Budget(amount=0.2, currency="EUR"))
    process = start(store, "small")
    told, _ = process.communicate(timeout=120)
    assert process.returncode == REFUSED
    assert "of its budget of 0.2 EUR; with a higher one (--set budget=...) it goes on from there" in told
    assert "stage 'count' does not begin" in told or "stage 'count' ended at step" in told
    priced(store, "large")
    entry = run(store, "large", budget=Budget(amount=1000, currency="EUR"))
    assert entry["outputs"]["model"]["digest"] == straight["outputs"]["model"]["digest"]


def test_no_stage_begins_without_money(store: Store) -> None:
    priced(store, "poor")
    attempt(store, "poor", 5.0, 1)
    prepare(store, "poor", budget=Budget(amount=5, currency="EUR"))
    process = start(store, "poor")
    told, _ = process.communicate(timeout=120)
    assert process.returncode == REFUSED and "stage 'count' does not begin: the run has spent" in told
    assert store.get(stage_key("poor", "count")) is None


def test_without_a_budget_nothing_is_looked_up(store: Store) -> None:
    plain = {"run_id": "r", "recipe": "r", "stage": "s", "component": "c", "inputs": {}, "params": {}, "seed": 0}
    spending = Spending(store, Job.model_validate(plain | {"store": "/nowhere"}))
    assert not spending.is_over()
    spending.end("ended")
