"""A job that asks for bytes that repeat: what its process is told, what is refused, what its record says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.endpoints import Endpoint
from components.contract.job import Job, Resources
from components.contract.registry import components
from components.runtime.job.launch import Launch
from components.runtime.ledger.records import action_key, stage_key
from components.runtime.lineage.graph.compare import compare_runs
from components.runtime.store import Store, open_store
from components.runtime.system.machine import machine_in_words, machine_record

ROOT = Path(__file__).parents[3]
ASKED = Resources(deterministic=True)
RUN = """
import sys
from components.contract.registry import components
components().add("scatter-for-test", "tests.support.scatter_stage:COMPONENT", origin="test")
from components.runtime.job.process import main
sys.exit(main())
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def job_of(store: Store, resources: Resources, *, run_id: str = "r", **params: Any) -> Job:
    return Job(
        run_id=run_id,
        recipe="toy",
        stage="scatter",
        component="scatter-for-test",
        inputs={},
        seed=0,
        store=store.uri,
        params=params,
        resources=resources,
    )


def run_in_process(job: Job) -> subprocess.CompletedProcess[str]:
    """Run a job as a container would."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("CUBLAS_WORKSPACE_CONFIG", None)
    command = [sys.executable, "-c", RUN, "-"]
    return subprocess.run(command, input=job.model_dump_json(), capture_output=True, text=True, env=environment)


def launched(store: Store, resources: Resources, run_id: str) -> dict[str, Any]:
    components().add("scatter-for-test", "tests.support.scatter_stage:COMPONENT", origin="test")
    return Launch(job_of(store, resources, run_id=run_id), lambda event: None).run()


def test_the_process_is_told_before_torch_starts_and_the_record_says_so(store: Store) -> None:
    done = run_in_process(job_of(store, ASKED))
    assert done.returncode == 0, done.stderr
    entry = store.get(stage_key("r", "scatter"))
    assert entry is not None
    seen = json.loads((store.fetch(entry["outputs"]["model"]["digest"]) / "seen.json").read_text())
    assert seen == {"workspace": ":4096:8", "deterministic": True}
    assert entry["machine"]["deterministic"] is entry["machine"]["repeats"] is True
    assert (entry["machine"]["device"], entry["machine"]["threads"]) == ("cpu", 1)
    action = store.get(action_key(entry["fingerprint"]))
    assert action is not None and action["machine"] == entry["machine"]


def test_an_operation_without_a_kernel_is_refused_in_one_line(store: Store) -> None:
    refused = run_in_process(job_of(store, ASKED, put=True))
    assert refused.returncode == 2  # a retry cannot help
    assert refused.stderr.splitlines()[-1] == (
        "posttrain: stage 'scatter': backend.deterministic: put_ has no deterministic kernel here; take another "
        "operator, or a pool without GPUs, or leave `deterministic` out of this stage"
    )
    assert run_in_process(job_of(store, Resources(), put=True)).returncode == 0


def test_what_was_made_otherwise_is_no_answer(store: Store) -> None:
    plain, asked = (launched(store, resources, name) for resources, name in ((Resources(), "a"), (ASKED, "b")))
    assert plain["fingerprint"] != asked["fingerprint"] and asked["cache"] == "miss"
    assert launched(store, ASKED, "c")["cache"] == "hit"
    rows = {row["name"]: (row["a"], row["b"]) for row in compare_runs(store, "a", "b").code}
    assert rows["deterministic"] == (False, True)
    assert store.get(stage_key("c", "scatter"))["machine"] == asked["machine"]  # type: ignore[index]


def test_jobs_that_do_not_ask_keep_their_fingerprints() -> None:
    assert Resources().backend_parts({"sampler", "trainer"}) == {}
    assert ASKED.backend_parts({"sampler"}) == {"deterministic": True}
    assert ASKED.backend_parts(set()) == {}  # a stage without models is the same stage
    assert "deterministic" not in Resources().model_dump()


@pytest.mark.parametrize(
    ("resources", "device", "repeats"),
    [
        (Resources(), "cpu", True),
        (Resources(threads=4), "cpu", True),
        (Resources(gpus=1), "cuda", False),
        (Resources(gpus=1, deterministic=True), "cuda", True),
        (Resources(gpus=1), "cpu", True),  # a pool's GPUs that are not there
    ],
)
def test_the_record_promises_what_holds(
    store: Store, resources: Resources, device: str, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.runtime.system.machine.gpu_name", lambda: "NVIDIA H100 80GB HBM3")
    job = job_of(store, resources)
    record = machine_record(job, device=device, processes=1, models=True)
    assert record["repeats"] is repeats
    said = machine_in_words(record)
    assert said.startswith("NVIDIA H100") == (device == "cuda")
    assert said.endswith("bytes do not repeat") == (not repeats)
    asks = job.model_copy(update={"endpoints": {"big": Endpoint(base_url="http://127.0.0.1:1/v1", model="big")}})
    assert machine_record(asks, device=device, processes=1, models=True)["repeats"] is False


def test_records_from_before_say_nothing() -> None:
    assert machine_in_words({}) == ""
