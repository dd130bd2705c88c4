"""A stage without enough memory ends in what to turn, whether it can still say so or was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError, StageFailed
from components.contract.job import Job, Resources, UriRef
from components.contract.memory import Moment
from components.contract.registry import components
from components.runtime.job.launch import Launch
from components.runtime.job.shortage import is_out_of_memory
from components.runtime.ledger.records import failure_key
from components.runtime.store import open_store
from components.runtime.system.ends import cause_of_end
from pipelines.engines.driver.causes import why_failed
from pipelines.engines.shared.pod import CONTAINER

ADVICE = "turn petabytes: 1, or take a larger pool; it was estimated to need, in GiB: cake 4.2e+06, crumbs 1"


INPUTS = {"model": ArtifactType.MODEL, "dataset": ArtifactType.DATASET}
SIZES = {"vocab_size": 32000, "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8}
SIZES |= {"intermediate_size": 2048}
OOM = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return launch_on(tmp_path, Resources())


def launch_on(folder: Path, resources: Resources) -> Launch:
    components().add("hungry-for-test", "tests.support.hungry_stage:COMPONENT", origin="test")
    job = Job(
        run_id="r",
        recipe="test",
        stage="eat",
        component="hungry-for-test",
        params={},
        inputs={},
        seed=0,
        store=str(folder / "store"),
        resources=resources,
    )
    return Launch(job, lambda event: None)


def recorded(launch: Launch) -> str:
    record = launch.store.get(failure_key("r", "eat"))
    assert record is not None
    return str(record["error"])


def test_an_allocation_that_fails_says_what_to_turn(launch: Launch) -> None:
    with pytest.raises(StageFailed) as caught:
        launch.run()
    assert str(caught.value).startswith("stage 'eat': RuntimeError: ")
    assert "can't allocate memory" in str(caught.value)
    assert str(caught.value).endswith(ADVICE)


def test_so_does_a_process_that_was_killed(launch: Launch) -> None:
    launch.record_death(f"its process {cause_of_end(-signal.SIGKILL)}")
    said = "its process was killed by SIGKILL (by a person, or by the system when memory ran out); "
    assert recorded(launch) == said + ADVICE


def test_so_do_pods_that_kubernetes_killed(launch: Launch) -> None:
    status = {"containerStatuses": [{"name": CONTAINER, "state": {"terminated": OOM}}]}
    death = why_failed([{"metadata": {"name": "eat-0"}, "status": status}])
    assert death is not None
    said = death.text
    assert said == "pod eat-0 needed more memory than its pool gives (OOMKilled)"
    launch.record_death(said)
    assert recorded(launch) == f"{said}; {ADVICE}"


def test_sizes_come_from_the_models_config_alone(tmp_path: Path) -> None:
    """A pod's store is a bucket, and the weights in it may be large: whoever records the death reads one file."""
    store = open_store(str(tmp_path / "store"))
    digests = {port: store.commit(kind, filled(tmp_path / port)).digest for port, kind in INPUTS.items()}
    (weights,) = (tmp_path / "store" / "objects" / digests["model"]).rglob("weights")
    stat = weights.stat()
    weights.chmod(0o644)
    weights.write_bytes(bytes(byte ^ 1 for byte in weights.read_bytes()))  # who reads them sees that they are damaged
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    job = Job(
        run_id="r",
        recipe="test",
        stage="eat",
        component="sft",
        params={"steps": 1},
        inputs={port: [UriRef(uri=f"artifact:{digest}")] for port, digest in digests.items()},
        seed=0,
        store=store.uri,
        resources=Resources(gpus=1, gpu_memory_gib=80, memory_gib=4),
    )
    launch = Launch(job, lambda event: None)
    launch.record_death("rank 3 of 8: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    assert "; turn backend: {recompute: true}; " in recorded(launch) and "activations " in recorded(launch)


def test_a_shortage_names_the_settings_as_they_are_now_and_the_knobs_of_its_moment(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    digests = {port: store.commit(kind, filled(tmp_path / port)).digest for port, kind in INPUTS.items()}
    job = Job(
        run_id="r",
        recipe="test",
        stage="learn",
        component="rl",
        params={"steps": 1, "method": "grpo"},
        inputs={port: [UriRef(uri=f"artifact:{digest}")] for port, digest in digests.items()},
        seed=0,
        store=store.uri,
        resources=Resources(gpus=1, gpu_memory_gib=80, memory_gib=64, sampler="vllm"),
    )
    launch = Launch(job, lambda event: None)
    said = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    drawing, training = (
        launch._what_to_turn(launch.upstream.resolve(), said, moment) for moment in (Moment.BETWEEN, Moment.PASS)
    )
    assert "POSTTRAIN_VLLM_GPU_MEMORY=0.25" in drawing and "recompute: true" not in drawing
    assert "recompute: true" in training and "POSTTRAIN_VLLM_GPU_MEMORY=0.25" not in training
    for text in (drawing, training):
        now = text.partition(" (now ")[2].partition(")")[0].split(", ")
        assert {"micro_batch_tokens: 16384", "recompute: false", "POSTTRAIN_VLLM_GPU_MEMORY=0.5"} <= set(now), now


WORK = """
import resource, sys
from pathlib import Path
import torch
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import accumulate_gradients
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.runtime.job.shortage import is_out_of_memory
from components.runtime.job.work import work_behind
from tests.modeling import decoder_models as models

folder = Path(sys.argv[1])
models.save("llama", folder)
policy = load_policy(folder)
trainer = build_trainer(policy, OptimizerConfig(), total_steps=1)
examples = [Example([5] * 120, [True] * 120)] * 4000
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (200 << 20), resource.RLIM_INFINITY))

def draw():
    config = SamplingConfig(num_samples=20000, max_new_tokens=100)
    generate(policy, [[5, 6]] * 8, config, generator=torch.Generator().manual_seed(0))

for work in (draw, lambda: accumulate_gradients(trainer, examples, max_tokens=10**6)):
    try:
        work()
    except Exception as error:
        found = work_behind(error)
        print(is_out_of_memory(error), found and found.words, flush=True)
"""


def test_where_memory_really_ran_out_is_told_apart(tmp_path: Path) -> None:
    """Allocations that the system refuses: the process may take only 200 MiB more."""
    command = [sys.executable, "-c", WORK, str(tmp_path / "model")]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.stdout.splitlines()[-2:] == ["True while it drew responses", "True in a training pass"], done.stderr


def filled(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SIZES))
    (folder / "weights").write_bytes(b"many")
    return folder


def test_on_gpus_it_matters_where_memory_ran_out(tmp_path: Path) -> None:
    launch = launch_on(tmp_path, Resources(gpus=8))
    launch.record_death("pod eat-0 needed more memory than its pool gives (OOMKilled)")
    assert recorded(launch).endswith(
        "turn crumb_size: 1, or take a larger pool; it was estimated to need, in GiB: crumbs 1"
    )
    launch.record_death("rank 3 of 8: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    assert recorded(launch).endswith(
        "turn petabytes: 1, or take a larger pool; it was estimated to need, in GiB: cake 4.2e+06"
    )


def test_other_deaths_say_nothing_of_memory(launch: Launch) -> None:
    launch.record_death(f"its process {cause_of_end(-signal.SIGTERM)}")
    assert recorded(launch) == "its process was killed by SIGTERM"


@pytest.mark.parametrize(
    ("error", "is_shortage"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
        (StageFailed("stage 'rl': rank 3 of 8: OutOfMemoryError: CUDA out of memory. Tried to allocate"), True),
        (StageFailed("stage 'rl': rank 1 of 2: MemoryError: "), True),
        (StageFailed("stage 'rl': rank 1 of 2: the card fell off"), False),
        (InputError("out of memory"), False),
    ],
)
def test_how_a_shortage_shows(error: Exception, is_shortage: bool) -> None:
    assert is_out_of_memory(error) is is_shortage
