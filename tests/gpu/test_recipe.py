"""A whole recipe on this machine's GPUs: gsm8k at its tiny scale, each training stage on all GPUs, by one command."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from components.runtime.ledger.records import stage_key
from components.runtime.store import open_store
from tests.gpu.device import ON_GPU

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


def pools(folder: Path) -> Path:
    """Write a pool of this machine, with vLLM and DeepSpeed where they are installed."""
    count = torch.cuda.device_count() if ON_GPU else 0
    one: dict[str, Any] = {"summary": "here", "cpus": 8 if ON_GPU else 1, "memory_gib": 64 if ON_GPU else 4}
    if ON_GPU:
        one |= {"gpus": 1, "gpu_memory_gib": torch.cuda.get_device_properties(0).total_memory // 2**30}
        one |= {"sampler": "vllm"} if find_spec("vllm") else {}
    every = {**one, "gpus": count} if ON_GPU else one
    if ON_GPU and find_spec("deepspeed"):
        every |= {"trainer": "deepspeed"}
    path = folder / "pools.yaml"
    path.write_text(
        yaml.safe_dump({"cpu": {"summary": "a core", "cpus": 1, "memory_gib": 4}, "here": one, "all": every})
    )
    return path


def test_every_stage_of_gsm8k(tmp_path: Path) -> None:
    """Its model is made on the spot and learns nothing: that every stage ends, and what it leaves, is what counts."""
    command = [sys.executable, "-m", "pipelines.cli", "run", "gsm8k", "--store", str(tmp_path / "store")]
    for name, value in {"scale": "tiny", "pool": "all", "eval_pool": "here", "verifier": "numeric"}.items():
        command += ["--set", f"{name}={value}"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "POSTTRAIN_POOLS": str(pools(tmp_path)),
        "POSTTRAIN_LINEAGE": "later",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=460)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    device = torch.cuda.get_device_name() if ON_GPU else "cpu"
    assert devices(tmp_path / "store") == {"sft": device, "rl": device}


def devices(place: Path) -> dict[str, str]:
    """Return on what the training stages of the only run computed, by their records."""
    store = open_store(str(place))
    (run,) = {key.split("/")[1] for key in store.keys("ledger/") if key.endswith("/rl.json")}
    found = {stage: store.get(stage_key(run, stage)) for stage in ("sft", "rl")}
    return {stage: str(entry["machine"]["device"]) for stage, entry in found.items() if entry}
