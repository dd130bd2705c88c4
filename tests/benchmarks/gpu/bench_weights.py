"""The weight path: from the trainer to an engine in another process, here the stand-in engine of the tests.

    python -m tests.benchmarks.gpu.bench_weights [--json FILE]

On one GPU it goes by CUDA IPC, and by the host's memory for comparison. With vLLM the first node's report has its time.
"""

from __future__ import annotations

import os
import sys

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.engine_sampler import EngineSampler
from tests.benchmarks.gpu.figures import Figures, run, seconds_of
from tests.gpu.device import free_memory, sized
from tests.gpu.models import qwen, random_policy
from tests.gpu.stand_in_engine import HOST_ONLY, TARGET

MODELS = sized(("1.5B", "7B"), ("tiny",))
LEAST = 20.0
"""GB/s within one GPU."""


def measure_way(found: Figures, name: str, target: str) -> None:
    """Measure how long an engine waits for the weights of a model."""
    free_memory()
    policy = random_policy({**qwen(name), "eos_token_id": None})
    size = sum(parameter.nbytes for parameter in policy.module.parameters()) / 1e9
    environment = {key: os.environ[key] for key in ("PYTHONPATH", "POSTTRAIN_TEST_DEVICE") if key in os.environ}
    with EngineSampler(policy, lambda: EngineProcess(target, python=sys.executable, environment=environment), {}) as it:
        seconds = seconds_of(it.load_weights, warm_up=1, tries=3)
        told = it.timings()
    ways = [key.removeprefix("weight_syncs_by_") for key in told if key.startswith("weight_syncs_by_")]
    called = f"{name} by {'+'.join(ways)}"
    found.add(called, seconds, "s")
    found.add(f"{called}: rate", size / seconds, "GB/s", at_least=LEAST if ways == ["cuda_ipc"] else None)


def measure(found: Figures) -> None:
    """Measure all models by the fastest way, and by the host's memory."""
    for name in MODELS:
        for target in sized((TARGET, HOST_ONLY), (TARGET,)):
            measure_way(found, name, target)


if __name__ == "__main__":
    run(__doc__, measure)
