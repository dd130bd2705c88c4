"""How a server is started on a folder: vLLM's where the pool draws with vLLM, else ours over transformers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.contract.job import Resources
from components.modeling.generation.choose import LAUNCHER_VARIABLES, PYTHON, vllm_environment
from components.modeling.models.gpus import gpu_memory_share
from components.modeling.models.model_sizes import ModelSizes

HOST = "127.0.0.1"
KEY_VARIABLES = {"vllm": "VLLM_API_KEY", "transformers": "POSTTRAIN_SERVE_KEY"}
"""Where each server reads its key: not on its command line, which every user of the machine may read."""
OURS = "components.serve.server.app"
THEIRS = "vllm.entrypoints.openai.api_server"
OWN_PROCESSES = "VLLM_ENABLE_V1_MULTIPROCESSING"


@dataclass(frozen=True)
class Serving:
    """What is served, and how large a request may be."""

    folder: Path
    model: str
    """Name under which the server knows the model: new each time, so that no other server is taken for ours."""
    key: str
    dtype: str
    max_model_len: int
    """Longest request with its answer, in tokens."""
    rows: int
    """Requests at a time."""


@dataclass(frozen=True)
class Command:
    """What to run for one port."""

    kind: str
    words: list[str]
    environment: dict[str, str]


def server_kind(resources: Resources) -> str:
    """Return "vllm" or "transformers"."""
    return "vllm" if resources.sampler == "vllm" else "transformers"


def command_for(
    serving: Serving, port: int, resources: Resources, device: str, environ: Mapping[str, str] = os.environ
) -> Command:
    """Return how the server is started. Its environment is the stage's, without what launchers tell ranks."""
    kind = server_kind(resources)
    kept = {name: value for name, value in environ.items() if name not in LAUNCHER_VARIABLES}
    keyed = {**kept, KEY_VARIABLES[kind]: serving.key, "HF_HUB_OFFLINE": "1"}
    if kind == "vllm":
        own = {name: value for name, value in vllm_environment(resources).items() if name != OWN_PROCESSES}
        return Command(kind, [environ.get(PYTHON) or sys.executable, *_vllm(serving, port, resources)], keyed | own)
    words = [sys.executable, "-m", OURS, "--folder", str(serving.folder), "--host", HOST, "--port", str(port)]
    words += ["--model", serving.model, "--dtype", serving.dtype, "--device", device, "--rows", str(serving.rows)]
    words += ["--max-model-len", str(serving.max_model_len), "--threads", str(resources.threads)]
    return Command(kind, words, keyed)


def _vllm(serving: Serving, port: int, resources: Resources) -> list[str]:
    words = ["-m", THEIRS, "--model", str(serving.folder), "--served-model-name", serving.model, "--host", HOST]
    words += ["--port", str(port), "--dtype", serving.dtype, "--max-model-len", str(serving.max_model_len)]
    words += ["--max-num-seqs", str(serving.rows), "--generation-config", "vllm"]  # nothing but what is asked for
    words += ["--logprobs-mode", "processed_logprobs"]  # of the distribution that tokens are drawn from
    if resources.gpus:
        split = _sizes(serving.folder)
        words += ["--gpu-memory-utilization", f"{gpu_memory_share(alone=True):g}"]
        words += ["--tensor-parallel-size", str(split.most_gpus(resources.gpus) if split else 1)]
    return words


def _sizes(folder: Path) -> ModelSizes | None:
    from components.modeling.models.folder import read_config

    return ModelSizes.from_config(read_config(folder))
