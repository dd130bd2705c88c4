"""What a run cost, in MLflow: every attempt counts, the run is the sum of its stages, a cached stage saves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.runtime.costs.attempts import Attempt, put_attempt
from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.store import Store
from tests.runtime.lineage.conftest import Story, uri_of
from tests.runtime.lineage.test_run_page import arrived

RATE = {"pool": "l4x1", "cpus": 8, "gpus": 1, "price_per_hour": 0.5, "currency": "EUR"}


def attempt(run_id: str, stage: str, number: int, seconds: float, end: str) -> Attempt:
    fixed = {"run_id": run_id, "stage": stage, "attempt": str(number), "started": datetime(2026, 1, 1, tzinfo=UTC)}
    holds = {"pool": "l4x1", "nodes": 1, "processes": 1, "gpus": 1, "cpus": 8, "cpu_seconds": 1800.0}
    return Attempt.model_validate({**fixed, **holds, "seconds": seconds, "end": end})


def costs(metrics: dict[str, float]) -> dict[str, float]:
    return {name.removeprefix("cost/"): value for name, value in metrics.items() if name.startswith("cost/")}


def test_attempts_that_failed_count_and_what_is_cached_tells_what_it_saved(store: Store, database: Path) -> None:
    first = Story(store, "quick-1")
    first.begin("data", "rl", rate=RATE, rl=["data"])
    put_attempt(store, attempt("quick-1", "rl", 1, 3600.0, "running"))  # killed unseen
    first.stage("data", {"dataset": ("Dataset", "rows")})
    put_attempt(store, attempt("quick-1", "rl", 2, 7200.0, "succeeded"))
    put_attempt(store, attempt("quick-1", "data", 1, 3600.0, "succeeded"))
    first.stage("rl", {"model": ("Model", "weights")}, inputs=first.inputs(dataset="data.dataset"))
    first.end("succeeded")
    for _ in range(2):  # delivering again writes the same
        deliver(store, "quick-1", uri_of(database))
        runs = arrived(database)[2]
        whole = {"gpu_hours": 4.0, "cpu_hours": 32.0, "cpu_hours_used": 1.5, "eur": 2.0, "attempts": 3.0}
        assert costs(runs["quick-1"].data.metrics) == pytest.approx(whole)
        assert costs(runs["rl"].data.metrics) == pytest.approx(
            {"gpu_hours": 3.0, "cpu_hours": 24.0, "cpu_hours_used": 1.0, "eur": 1.5, "attempts": 2.0}
        )

    again = Story(store, "quick-2")
    again.begin("data", rate=RATE)
    again.stage("data", {"dataset": ("Dataset", "rows")}, cache="hit")
    again.end("succeeded")
    deliver(store, "quick-2", uri_of(database))
    client, experiment, _ = arrived(database)
    found = client.search_runs([experiment.experiment_id], "tags.`posttrain.run_id` = 'quick-2'")
    (stage,) = [run for run in found if "posttrain.stage" in run.data.tags]
    told = costs(stage.data.metrics)
    assert (told["gpu_hours"], told["attempts"]) == (0.0, 0.0)
    assert told["saved_gpu_hours"] == pytest.approx(10 / 3600) and told["saved_eur"] == pytest.approx(5 / 3600)
