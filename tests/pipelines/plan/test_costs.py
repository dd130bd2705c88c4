"""What a run cost beside the plan's estimate: attempts, cells, cache, and what damaged or old records leave out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.runtime.costs.amounts import total
from components.runtime.costs.attempts import Attempt, put_attempt
from components.runtime.ledger.records import action_key, run_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.plan.costs import cost_cell, run_cost, with_cost
from pipelines.plan.startup import Startup

RATE = {"pool": "l4x1", "cpus": 7, "gpus": 1, "price_per_hour": 3.6, "currency": "EUR"}
RUN, BEFORE = "mine-20260102-000000-aaaa", "mine-20260101-000000-bbbb"


def planned(name: str, **labels: Any) -> dict[str, Any]:
    return {"name": name, "component": "sft", "labels": labels, "rate": RATE}


def attempt(stage: str, seconds: float, number: int = 0, end: str = "succeeded", run_id: str = RUN) -> Attempt:
    started = datetime(2026, 1, 2, tzinfo=UTC)
    fixed = {"run_id": run_id, "stage": stage, "attempt": f"{number:04d}", "started": started, "cpu_seconds": 1.0}
    return Attempt.model_validate({**fixed, "seconds": seconds, "end": end, **HOLDS})


HOLDS = {"pool": "l4x1", "nodes": 1, "processes": 1, "gpus": 1, "cpus": 7}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def run(*stages: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": RUN, "recipe": "mine", "stages": list(stages)}


def entry(fingerprint: str, cache: str = "miss") -> dict[str, Any]:
    return {"stage": "sft", "component": "sft", "status": "done", "cache": cache, "fingerprint": fingerprint}


def test_failed_and_killed_attempts_count_beside_the_estimate_of_the_runs_before(store: Store) -> None:
    store.put(stage_key(BEFORE, "sft"), entry("f0"))
    store.put(action_key("f0"), {"seconds": 1800.0})
    store.put(stage_key(RUN, "sft"), entry("f1"))
    store.put(action_key("f1"), {"seconds": 9999.0})  # of this run: its plan did not know it
    for number, (seconds, end) in enumerate([(600, "failed"), (900, "running"), (2100, "succeeded")]):
        put_attempt(store, attempt("sft", seconds, number, end))
    cost = run_cost(store, run(planned("sft")), {"sft": entry("f1")})
    assert (cost.attempts, cost.amount.gpu_hours, cost.amount.prices) == (3, 1.0, {"EUR": pytest.approx(3.6)})
    assert cost.estimate is not None and cost.estimate.prices == {"EUR": pytest.approx(1.8015)}, (
        "1800 s, and 1.5 s assumed"
    )
    assert cost.in_words() == (
        "GPU 1.00 h, CPU 7.00 h (3 s at work), 3.60 EUR, in 3 attempts; "
        "the plan's estimate: GPU 30.0 min, CPU 3.50 h, 1.80 EUR"
    )
    assert cost_cell(cost.stages["sft"]) == "GPU 1.00 h, CPU 7.00 h, 3.60 EUR in 3 attempts"


def test_start_up_is_measured_on_the_engine_by_component(store: Store) -> None:
    runs = {"a-local": "local", "b-local": "local", "c-airflow": "airflow"}
    for run_id, engine in runs.items():
        store.put(run_key(run_id), {"run_id": run_id, "engine": engine})
    for run_id, stage, component, took, work in (
        ("a-local", "one", "sft", 11.0, 10.0),
        ("a-local", "two", "sft", 7.0, 4.0),
        ("b-local", "one", "sft", 12.0, 10.0),
        ("b-local", "select", "select", 9.0, 0.5),
        ("c-airflow", "one", "sft", 25.0, 10.0),
    ):
        made = {**entry("f"), "component": component, "seconds": work}
        store.put(stage_key(run_id, stage), made)
        put_attempt(store, attempt(stage, took, run_id=run_id))
    put_attempt(store, attempt("one", 500.0, 1, run_id="b-local"))  # a second attempt went on with the first one's work
    local = Startup(store, runs, "local")
    assert (local.seconds("sft"), local.seconds("select"), local.is_measured) == (2.0, 8.5, True)
    assert local.seconds("curate") == 3.0, "the median of all"
    assert Startup(store, runs, "airflow").seconds("sft") == 15.0
    assumed = Startup(store, runs, "kubeflow")
    assert (assumed.seconds("sft"), assumed.is_measured) == (10.0, False)
    assert Startup(store, ["gone", "nothing"], "local").seconds("sft") == 1.5


def test_a_cached_stage_costs_nothing_and_says_what_it_saved(store: Store) -> None:
    store.put(action_key("f0"), {"seconds": 3600.0})
    cost = run_cost(store, run(planned("sft")), {"sft": entry("f0", "hit")})
    assert cost.amount.hours == 0 and cost.saved.prices == {"EUR": 3.6}
    assert cost.in_words() == "nothing; saved by the cache: GPU 1.00 h, CPU 7.00 h, 3.60 EUR"
    assert cost_cell(cost.stages["sft"]) == "saved GPU 1.00 h, CPU 7.00 h, 3.60 EUR"
    gone = run_cost(store, run(planned("sft")), {"sft": entry("collected", "hit")})
    assert gone.stages["sft"].saved is None and cost_cell(gone.stages["sft"]) == "-"


def test_runs_from_before_attempts_were_recorded_cost_what_nobody_knows(store: Store) -> None:
    old = {"name": "sft", "component": "sft", "labels": {}}
    cost = run_cost(store, run(old), {"sft": entry("f0")})
    assert (cost.in_words(), cost.estimate) == ("", None)
    put_attempt(store, attempt("sft", 3600))
    assert run_cost(store, run(old), {}).amount.gpu_hours == 1.0, "hours are known where there is no price"


def test_a_damaged_record_is_said_and_not_counted(store: Store) -> None:
    put_attempt(store, attempt("sft", 3600))
    store.blobs.write(attempt("sft", 1, 1).key, b"{}")
    cost = run_cost(store, run(planned("sft")), {})
    assert cost.amount.gpu_hours == 1.0
    assert cost.in_words().endswith("not counted: 1 damaged record of attempts")


LABELS = st.fixed_dictionaries({}, optional={"seed": st.integers(0, 2), "lr": st.sampled_from([0.1, 0.01])})


@given(st.lists(st.tuples(LABELS, st.lists(st.integers(0, 10_000), max_size=3)), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_cells_add_up_to_the_run_whatever_its_matrix(tmp_path_factory: Any, stages: Any) -> None:
    store = open_store(str(tmp_path_factory.mktemp("store")))
    plan = [planned(f"s{index}", **labels) for index, (labels, _) in enumerate(stages)]
    for index, (_, tries) in enumerate(stages):
        for number, seconds in enumerate(tries):
            put_attempt(store, attempt(f"s{index}", seconds, number))
    cost = run_cost(store, run(*plan), {})
    by_hand = sum(seconds for _, tries in stages for seconds in tries) / 3600
    cells = cost.by_cell()
    assert cost.amount.gpu_hours == pytest.approx(by_hand) == pytest.approx(total(a for _, a in cells).gpu_hours)
    assert len(cells) == len({str(sorted(labels.items())) for labels, _ in stages})
    shown = with_cost({"stages": [{"name": one["name"]} for one in plan]}, cost)
    assert sum(stage["cost"]["gpu_hours"] for stage in shown["stages"]) == pytest.approx(shown["cost"]["gpu_hours"])
