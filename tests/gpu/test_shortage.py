"""Out of memory on the device: the stage ends with one line that names the setting which helps most."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.job import Job, Resources, UriRef
from components.runtime.ledger.records import failure_key, save_job
from components.runtime.store import open_store
from tests.gpu.device import DEVICE, ON_GPU, free_memory, sized
from tests.gpu.models import qwen, random_policy
from tests.stages.supervised_data import base_model
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
LEFT = sized(12, 3) << 30
"""Bytes that the stage gets: enough for the model, not for the pass."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose passes need more memory than there is, and long rows for it."""
    folder = tmp_path_factory.mktemp("inputs")
    base_model(folder / "model")
    if ON_GPU:
        tokenizer = folder / "model"
        policy = random_policy({**qwen("0.5B"), "eos_token_id": None, "pad_token_id": None})
        policy.export(tokenizer)
    else:
        widen(folder / "model")
    word = "cat sun tiger moon star ox river stone "
    row = {"prompt": "Spell backward: cat", "response": word * sized(80, 40), "domain": "words", "id": "a"}
    write_jsonl(folder / "dataset", [{**row, "id": str(index)} for index in range(32)])
    return folder


def widen(folder: Path) -> None:
    """Replace a model by one of more layers: on a CPU a pass over its rows takes several GiB."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": 256, "intermediate_size": 4096, "num_hidden_layers": 16, "head_dim": 128}
    from transformers import AutoConfig, AutoModelForCausalLM

    own = AutoConfig.for_model(**{**config, "max_position_embeddings": 4096})
    AutoModelForCausalLM.from_config(own).save_pretrained(folder)


def failure(folder: Path, store: Path, **params: Any) -> str:
    """Run sft as a job with little memory left; return the error that it recorded."""
    job = Job(
        run_id="r",
        recipe="shortage",
        stage="sft",
        component="sft",
        inputs={name: [UriRef(uri=f"file:{folder / name}")] for name in ("model", "dataset")},
        params={"steps": 1, "batch_size": 32, "max_tokens": 4096, **params},
        seed=0,
        store=str(store),
        resources=Resources(gpus=1, gpu_memory_gib=LEFT >> 30) if ON_GPU else Resources(memory_gib=LEFT >> 30),
    )
    opened = open_store(str(store))
    save_job(opened, job)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "POSTTRAIN_LINEAGE": "later"}
    command = [sys.executable, "-m", "components.runtime.job.process", "--store", str(store)]
    done = subprocess.run(
        [*command, "--run-id", "r", "--stage", "sft"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=None if ON_GPU else limit_address_space,
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stderr.splitlines()[-1].startswith("posttrain: stage 'sft': ")
    record = opened.get(failure_key("r", "sft"))
    assert record is not None
    return str(record["error"])


def limit_address_space() -> None:
    """Let allocations fail, as they do where a container's memory is used up."""
    resource.setrlimit(resource.RLIMIT_AS, (LEFT, LEFT))


@pytest.fixture
def little_memory() -> Any:
    """Hold all of the GPU's memory but what is left to the stage."""
    if not ON_GPU:
        yield
        return
    free_memory()
    held = torch.empty(max(0, torch.cuda.mem_get_info()[0] - LEFT), dtype=torch.uint8, device=DEVICE)
    yield
    del held
    free_memory()


@pytest.mark.usefixtures("little_memory")
def test_too_large_a_pass_is_told_to_be_made_smaller(inputs: Path, tmp_path: Path) -> None:
    """Activations need the most: recomputing them helps most, then a smaller pass; the weights are not the problem."""
    told = failure(inputs, tmp_path / "store", micro_batch_tokens=65536)
    assert told.startswith("stage 'sft': ") and "\n" not in told
    assert "memory" in told.lower()
    turned = told.partition("turn ")[2].partition(", or take a larger pool")[0].split("; ")
    assert set(turned[:2]) == {"backend: {recompute: true}", "micro_batch_tokens: 32768"}
    assert "micro_batch_tokens: 65536" in told.partition(" (now ")[2]
    parts = told.partition("it was estimated to need, in GiB")[2].partition(": ")[2]
    assert parts.startswith("activations ")
