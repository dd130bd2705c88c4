"""A store of each kind with runs in it whose stages really ran, each in an instant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job, StageRef
from components.contract.registry import components
from components.runtime.job.launch import Launch
from components.runtime.ledger.records import end_key, run_key, utc
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store, open_store

Run = Callable[..., dict[str, Any]]
OLD = 0.0
"""A grace in which everything counts as old."""


@pytest.fixture(autouse=True)
def registered() -> None:
    components().add("count-for-test", "tests.support.counting_stage:COMPONENT", origin="test")


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return open_store(str(tmp_path / "store"))
    return open_store(request.getfixturevalue("s3_uri"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run two stages, of which the second counts on from the first; return its ledger entry."""

    def go(store: Store, run_id: str, *, steps: int = 2, started: float = 1e9, **fields: Any) -> dict[str, Any]:
        plan = [{"name": name, "component": "count-for-test", "after": []} for name in ("first", "second")]
        entry = {"recipe": fields.pop("recipe", "test"), "started": utc(started), "stages": plan, "run_id": run_id}
        store.put(run_key(run_id), entry)
        Spool(store, run_id).run_started(entry)
        params = {"steps": steps, "journal": str(tmp_path / "journal")}
        plain = {"component": "count-for-test", "recipe": "test", "seed": 0, "store": store.uri, "params": params}
        first = Job.model_validate({**plain, "run_id": run_id, "stage": "first", "inputs": {}})
        launch(first, store)
        inputs = {"before": [StageRef(stage="first", port="model")]}
        second = Job.model_validate({**plain, "run_id": run_id, "stage": "second", "inputs": inputs, **fields})
        made = launch(second, store)
        store.put(end_key(run_id), {"status": "succeeded", "ended": utc(started + 5), "seconds": 5.0}, overwrite=True)
        return made

    return go


def launch(job: Job, store: Store) -> dict[str, Any]:
    return Launch(job, lambda event: None, store=store).run()


def outputs(entry: dict[str, Any]) -> set[str]:
    return {item["digest"] for item in entry["outputs"].values()}
