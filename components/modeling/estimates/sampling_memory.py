"""Memory of drawing responses: the native sampler's cache, or vLLM and its share of each GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from components.contract.errors import InputError
from components.contract.job import Resources
from components.contract.memory import GIB, MemoryEstimate, Moment, Need
from components.modeling.estimates.memory_knobs import knobs
from components.modeling.estimates.memory_needs import BYTES, layer_per_token, logits_need, process_needs
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.gpus import gpu_memory_share
from components.modeling.models.model_sizes import ModelSizes

ENGINE = 0.7 * GIB
"""vLLM's process before any model and without its cache, measured with the CPU build."""
ENGINE_CUDA = 1.0 * GIB
"""vLLM's memory on each GPU while it sleeps: its CUDA context and graphs."""
ENGINE_CPU_CACHE = 1.0 * GIB
"""Default of VLLM_CPU_KVCACHE_SPACE, which vLLM's CPU build allocates at its start."""
LEAST_CACHE = 1.0 * GIB
"""Least GPU memory that vLLM needs beside its weights."""
SCORED_TOKENS = 16384
"""components.modeling.generation.scoring.MAX_TOKENS: most tokens of a pass in which the policy scores an engine's."""
DEFAULT_BATCH: int = SamplingConfig.model_fields["max_batch_tokens"].default
PROMPT_TOKENS = 256
"""Assumed tokens of a prompt; only the run knows them."""


def engine_share() -> float:
    """Return the share of each GPU's memory that vLLM takes while awake; jobs read the same variable."""
    try:
        return gpu_memory_share()
    except InputError:  # the job reports it
        return gpu_memory_share({})


def drawing_needs(
    sizes: ModelSizes,
    resources: Resources,
    dtype: str,
    *,
    cached: int,
    gpus: int,
    share: float,
    awake: Moment | None,
    ranks: int = 1,
    part: ModelSizes | None = None,
) -> Iterator[Need]:
    """Yield the memory of one process that draws and scores: `cached` tokens of the native sampler's cache, or vLLM.

    vLLM uses up to `gpus` GPUs and takes `share` of each when it is `awake`; one engine may serve several `ranks`.
    `part` is what this process has of the model, to draw or to score with it; None for all of it.
    """
    part = part or sizes
    if resources.sampler == "native":
        yield Need("key-value cache", 2 * BYTES[dtype] * part.cache_per_token() * cached, moment=Moment.BETWEEN)
        return
    layer = BYTES[dtype] * layer_per_token(part, cached, cpu=not resources.gpus)
    yield Need("passes that score", layer * min(cached, SCORED_TOKENS), moment=Moment.BETWEEN)
    yield logits_need(part, min(cached, SCORED_TOKENS), Moment.BETWEEN, resources)
    yield Need("vLLM", ENGINE / ranks, on_host=True)
    weights = BYTES[dtype] * sizes.parameters
    yield Need("vLLM's weights", weights / ranks, on_host=True)  # where they are while a GPU engine sleeps
    if not resources.gpus:
        yield Need("vLLM's cache", ENGINE_CPU_CACHE, on_host=True)
        return
    yield Need("vLLM's CUDA", ENGINE_CUDA)
    least, given = weights / sizes.most_gpus(gpus) + LEAST_CACHE, share * (resources.gpu_memory_gib or 0) * GIB
    name = "vLLM's share of the GPU" if given >= least else "vLLM's weights and a small cache"
    yield Need(name, max(given, least), moment=awake)


def choosing_memory(params: Any, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return `sampling_memory` of a stage that samples several models: the next is loaded beside the previous one."""
    return sampling_memory(params, model, resources, copies=2)


def sampling_memory(
    params: Any, model: ModelSizes | None, resources: Resources, *, copies: int = 1
) -> MemoryEstimate | None:
    """Return the memory of one process that holds `copies` of a model and draws without training.

    None if the model's sizes are unknown. `params` may have `max_batch_tokens` and `dtype`; a stage without them uses
    the defaults.
    """
    if model is None:
        return None
    needs_of, share = partial(_needs, model, copies), engine_share()
    needs = tuple(needs_of(params, resources, share))
    return MemoryEstimate(needs, 1, model, knobs(needs_of, params, resources, share))


def _needs(sizes: ModelSizes, copies: int, params: Any, resources: Resources, share: float) -> Iterator[Need]:
    dtype, cached = getattr(params, "dtype", "float32"), getattr(params, "max_batch_tokens", DEFAULT_BATCH)
    yield Need("weights", copies * BYTES[dtype] * sizes.parameters)
    yield from process_needs(resources)
    drawing = drawing_needs(
        sizes, resources, dtype, cached=cached, gpus=max(1, resources.gpus), share=share, awake=Moment.BETWEEN
    )
    yield from (replace(need, moment=None) for need in drawing)  # nothing else runs
