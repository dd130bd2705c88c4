"""All GPUs of a node: NCCL's bandwidth, and an sft stage under FSDP and ZeRO 3 with a rank on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from components.contract.job import Job, Resources, UriRef
from components.runtime.ledger.records import save_job, stage_key
from components.runtime.store import open_store
from tests.gpu.device import ON_GPU
from tests.stages.supervised_data import base_model, demonstrations_folder

COUNT = torch.cuda.device_count() if ON_GPU else 0
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(COUNT < 2, reason=f"{COUNT} GPUs are there, and it takes two")]

ROOT = Path(__file__).parents[2]
LEAST = 20.0
"""GB/s of an all-reduce: less than PCIe gives means that GPUs speak through the host."""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def test_an_all_reduce_is_as_fast_as_the_links(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(COUNT), "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "-m", "tests.gpu.several", str(tmp_path / "found.json")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    print(found)
    assert found["gigabytes_per_second"] >= LEAST


@pytest.mark.parametrize("trainer", ["fsdp", "deepspeed"])
def test_sft_with_a_rank_on_each_gpu(trainer: str, tmp_path: Path) -> None:
    if trainer == "deepspeed" and find_spec("deepspeed") is None:
        pytest.skip("the package deepspeed is not installed")
    base_model(tmp_path / "model")
    demonstrations_folder(tmp_path / "dataset")
    store = open_store(str(tmp_path / "store"))
    job = Job(
        run_id="r",
        recipe="gpus",
        stage="sft",
        component="sft",
        inputs={name: [UriRef(uri=f"file:{tmp_path / name}")] for name in ("model", "dataset")},
        params={"steps": 12, "batch_size": 16, "dtype": "bfloat16"},
        seed=0,
        store=store.uri,
        resources=Resources(gpus=COUNT, trainer=trainer, zero_stage=3 if trainer == "deepspeed" else 2),
    )
    save_job(store, job)
    command = [sys.executable, "-m", "components.runtime.job.process", "--store", store.uri]
    done = subprocess.run(
        [*command, "--run-id", "r", "--stage", "sft"],
        env={**environment(), "POSTTRAIN_LINEAGE": "later"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    entry = store.get(stage_key("r", "sft"))
    assert entry is not None and entry["metrics"]["loss"] > 0
