"""Memory of the stages that train on examples: pretrain, sft, replay."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.modeling.estimates.memory_knobs import knobs
from components.modeling.estimates.memory_needs import training_needs
from components.modeling.models.model_sizes import ModelSizes


def supervised_memory(params: Any, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of a stage with SupervisedConfig; None if the model's sizes are unknown."""
    sizes = ModelSizes.new(params.architecture) if model is None and hasattr(params, "architecture") else model
    if sizes is None:
        return None
    needs_of = partial(_needs, sizes)
    return MemoryEstimate(
        tuple(needs_of(params, resources)),
        resources.ranks_per_node,
        sizes,
        knobs(needs_of, params, resources, 0.0),
        sizes.why_not_parted(resources.tensor_parallel),
    )


def _needs(sizes: ModelSizes, params: Any, resources: Resources, share: float = 0.0) -> Iterator[Need]:
    batch = params.batch_size * params.max_tokens
    tokens = max(params.max_tokens, min(params.micro_batch_tokens, -(-batch // resources.data_ranks)))
    yield from training_needs(
        sizes,
        resources,
        dtype=params.dtype,
        optimizer=params.optimizer.name,
        lora=getattr(params, "lora", None),
        pass_tokens=tokens,
        longest=params.max_tokens,
    )
