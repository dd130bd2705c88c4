"""Out of memory: how to detect it, and the advice to show."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.errors import GateFailed, InputError, PosttrainError
from components.contract.job import Job, Resources
from components.contract.memory import Moment, place_of_shortage
from components.contract.params import Params
from components.runtime.inputs.resolve import Resolved
from components.runtime.store import Store
from components.runtime.system.ends import MEMORY

MODELS = (ArtifactType.MODEL, ArtifactType.CHECKPOINTS)

SIGNS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "outofmemoryerror",
    "memoryerror",
    "oomkilled",
    "low on resource: memory",  # a pod that was evicted
    "desired gpu memory utilization",  # vLLM: the trainer has left less than its share
    "no available memory for the cache",  # vLLM: its share holds no more than the weights
    MEMORY,
)
MEMORY_SHARE, DEFAULT_SHARE = "POSTTRAIN_VLLM_GPU_MEMORY", 0.5
"""As in components/modeling/models/gpus.py, which the runtime does not import."""
GPU_SIGNS = ("cuda", "outofmemoryerror", "gpu memory", "memory for the cache")


def means_shortage(text: str) -> bool:
    """Return whether the failure message of this process, another rank or an engine means out of memory."""
    return any(sign in text.lower() for sign in SIGNS)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory: Python's, torch's on a CPU, CUDA's, or another rank's."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said_otherwise = isinstance(error, InputError | GateFailed)
    told = isinstance(error, RuntimeError | OSError | PosttrainError) and not said_otherwise
    return told and means_shortage(str(error))


SETTINGS = ("micro_batch_tokens", "max_batch_tokens", "max_tokens", "max_new_tokens", "prompts_per_step", "dtype")
"""Parameters of stages that memory depends on."""


def what_to_turn(
    job: Job,
    component: Component,
    params: Params,
    store: Store,
    inputs: Resolved,
    said: str,
    moment: Moment | None = None,
) -> str:
    """Return which settings would lower memory use, as text; generic advice if the stage's needs are unknown.

    `said`, the error message, distinguishes GPU memory from host memory; `moment` is when memory ran out, if known.
    """
    sizes = _model_sizes(component, store, inputs)
    estimate = component.memory and component.memory(params, sizes, job.resources)
    if not estimate:
        return "take a larger pool"
    on_gpu = any(sign in said.lower() for sign in GPU_SIGNS)
    place = place_of_shortage(gpus=job.resources.gpus, on_gpu=on_gpu)
    parts = estimate.parts_in_words(place)
    advice = estimate.advice(place, moments=tuple(Moment) if moment is None else (moment,))
    now = _settings(component, params, job.resources)
    return f"{advice}{now}; it was estimated to need, in GiB{estimate.when(place)}: {parts}"


def _settings(component: Component, params: Params, resources: Resources) -> str:
    """Return the settings of a stage with models as they are now, as text to append."""
    given = [f"{name}: {getattr(params, name)}" for name in SETTINGS if name in type(params).model_fields]
    if "trainer" in component.backends:
        given.append(f"recompute: {str(resources.recompute).lower()}")
        if resources.trainer == "deepspeed":
            names = ("zero_stage", "offload")
            given += [f"{name}: {getattr(resources, name)}" for name in names]
            given.append(f"processes: {resources.ranks_per_node}")
    if "sampler" in component.backends and resources.sampler == "vllm" and resources.gpus:
        given.append(f"{MEMORY_SHARE}={os.environ.get(MEMORY_SHARE, DEFAULT_SHARE)}")
    return f" (now {', '.join(given)})" if component.backends and given else ""


def _model_sizes(component: Component, store: Store, inputs: Resolved) -> Any:
    """Return the sizes of the first input model from its config.json alone: weights may be large and remote."""
    if component.model_sizes is None:
        return None
    of_models = (
        port for port in inputs if component.inputs[port].type in MODELS and not component.inputs[port].further
    )
    with suppress(PosttrainError):  # an unreachable store must not hide the shortage
        for digest in (digest for port in of_models for digest, _ in inputs[port]):
            paths = [entry.path for entry in store.manifest(digest).files if Path(entry.path).name == "config.json"]
            if paths:
                return component.model_sizes(json.loads(store.read_file(digest, paths[0])))
    return None
