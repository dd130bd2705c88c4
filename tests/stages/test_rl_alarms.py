"""The rl stage that an alarm stops: what it leaves to look at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import StoppedByAlarm
from components.contract.job import Job
from components.rl.step.samples import SAMPLES_PER_STEP
from components.runtime.job.launch import Launch
from components.runtime.ledger.ledger import load_run
from components.runtime.store import Store, open_store
from pipelines.runs.samples import Wish, find_samples
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")
NEVER_SO_NEAR = {"kl_beyond_bound": -1.0}
"""Bounds by which every measured divergence is an alarm, in the second row that has one."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def job_of(store: Store, folder: Path, **params: Any) -> Job:
    rows = write_jsonl(folder / "rows", [item(index) for index in range(10)])
    model = store.commit(ArtifactType.MODEL, make_model(folder / "model"))
    dataset = store.commit(ArtifactType.DATASET, rows)
    inputs = {name: [{"uri": f"artifact:{made.digest}"}] for name, made in {"model": model, "dataset": dataset}.items()}
    store.put("ledger/run-1/run.json", {"recipe": "test", "stages": [{"name": "rl"}]})
    plain = {"component": "rl", "recipe": "test", "run_id": "run-1", "stage": "rl", "seed": 3, "store": store.uri}
    return Job.model_validate({**plain, "inputs": inputs, "params": {**PARAMS, "start_kl_every": 1, **params}})


@pytest.mark.parametrize(("steps", "kept"), [(5, [1, 2]), (200, [1, 2])], ids=["every step", "one step in three"])
def test_samples_of_the_step_that_it_stopped_at_are_kept_once(
    steps: int, kept: list[int], tmp_path: Path, store: Store
) -> None:
    job = job_of(store, tmp_path, steps=steps)
    with pytest.raises(StoppedByAlarm, match="kl_beyond_bound since step 1"):
        Launch(job.model_copy(update={"on_alarm": "stop", "alarms": NEVER_SO_NEAR}), lambda event: None).run()
    run = load_run(store, "run-1")
    assert set(run.kept["rl"]) == {"metrics", "rollouts"}  # the latter with the journal of its steps alone
    found = find_samples(store, run, "rl", Wish(limit=100))
    assert Counter(sample.step for _, sample in found.chosen) == dict.fromkeys(kept, SAMPLES_PER_STEP)
    assert find_samples(store, run, "rl", Wish(step=2, sort="best")).num_matching == SAMPLES_PER_STEP
