"""Memory of the rl stage: training, the frozen starting policy, and the sampler: its cache, or an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Need
from components.modeling.memory_needs import BYTES, ModelSizes, cache_need, engine_needs, training_needs
from components.modeling.sampling_config import SamplingConfig

if TYPE_CHECKING:
    from components.rl.component import RLParams

PROMPT_TOKENS = 256
"""Tokens of a prompt; only the run knows them."""


def rl_memory(params: RLParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return what the stage takes; None where the model's sizes are not known."""
    if model is None:
        return None
    rows = -(-params.prompts_per_step * params.group_size // resources.world_size)
    longest = params.max_new_tokens + PROMPT_TOKENS
    step_tokens = rows * params.max_new_tokens
    needs = training_needs(
        model,
        resources,
        dtype=params.dtype,
        optimizer=params.optimizer.name,
        lora=params.lora,
        pass_tokens=max(longest, min(params.micro_batch_tokens, step_tokens)),
        longest=longest,
    )
    if resources.sampler == "native":
        extra = [cache_need(model, params.dtype, *_cached(step_tokens))]
    else:
        extra = [*engine_needs(model, resources, params.dtype)]
    if params.start_kl_every:
        extra.append(Need("starting policy", BYTES[params.dtype] * model.parameters, "start_kl_every: 0"))
    return MemoryEstimate((*needs, *extra), resources.ranks_per_node, model)


def _cached(step_tokens: int) -> tuple[int, str]:
    return min(step_tokens, SamplingConfig().max_batch_tokens), "prompts_per_step or max_new_tokens, smaller"
