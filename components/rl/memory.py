"""Memory of the rl stage: training, copies of the policy, a critic, and the sampler's cache or engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from components.contract.job import Resources
from components.contract.memory import GIB, Knob, MemoryEstimate, Moment, Need
from components.contract.operators import OperatorSpec
from components.modeling.estimates.fsdp_memory import drawing_by_layers, frozen_share, fsdp_needs, gathered_to_draw
from components.modeling.estimates.memory_knobs import knobs
from components.modeling.estimates.memory_needs import AVERAGES, BYTES, packed_of, state_bytes, training_needs
from components.modeling.estimates.sampling_memory import DEFAULT_BATCH, PROMPT_TOKENS, drawing_needs, engine_share
from components.modeling.models.model_sizes import ModelSizes
from components.rl.presets import bind

if TYPE_CHECKING:
    from components.rl.params import RLParams
    from components.rl.slots import Slots


def rl_memory(params: RLParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the stage's memory needs; None if the model's sizes are unknown."""
    if model is None:
        return None
    needs_of = partial(_needs, model)
    share = engine_share()
    return MemoryEstimate(
        tuple(needs_of(params, resources, share)),
        resources.ranks_per_node,
        model,
        (*_waiting(needs_of, params, resources, share), *knobs(needs_of, params, resources, share)),
        model.why_not_parted(resources.tensor_parallel),
    )


def _waiting(
    needs_of: Callable[[RLParams, Resources, float], Iterable[Need]],
    params: RLParams,
    resources: Resources,
    share: float,
) -> Iterator[Knob]:
    """Yield the knob that lets an engine sleep while the trainer trains, if it draws ahead."""
    if resources.gpus and bind(params.slots()).users_of("draws_ahead"):
        waiting = params.model_copy(update={"rollout": OperatorSpec(name="group")})
        yield Knob("rollout: group", partial(needs_of, waiting, resources, share))


def _needs(model: ModelSizes, params: RLParams, resources: Resources, share: float) -> Iterator[Need]:
    rows = -(-params.prompts_per_step * params.group_size // resources.data_ranks)
    longest = params.max_new_tokens + PROMPT_TOKENS
    step_tokens = rows * params.max_new_tokens
    yield from training_needs(
        model,
        resources,
        dtype=params.dtype,
        optimizer=params.optimizer.name,
        lora=params.lora,
        pass_tokens=max(longest, min(params.micro_batch_tokens, step_tokens)),
        longest=longest,
    )
    part = model.part(resources.tensor_parallel)
    held = {"size": BYTES[params.dtype], "adapters": part.adapters(params.lora) if params.lora else 0}
    held["packed"] = packed_of(part, params.lora)
    by_layers = drawing_by_layers(part, resources, **held)
    if resources.sharded:
        yield gathered_to_draw(part, by_layers=by_layers, **held)
    parts = [bind(params.slots(phase)) for phase in params.phases or (None,)]
    ahead = any(slots.users_of("draws_ahead") for slots in parts)
    engine = _engine_gpus(model, params, resources, share)
    yield from drawing_needs(
        model,
        resources,
        params.dtype,
        cached=min(-(-step_tokens // resources.context_parallel), DEFAULT_BATCH),  # its ranks draw different rows
        gpus=engine,
        ranks=max(1, engine // max(1, resources.gpus // resources.ranks_per_node)),
        share=share,
        awake=None if ahead else Moment.BETWEEN,
        part=part,
    )
    frozen = frozen_share(model, resources)
    yield from _copies(model, params, parts, frozen, frozen if by_layers else part.parameters / model.parameters)
    if any(slots.has_critic for slots in parts):
        yield from _critic_needs(model, params, resources)


def _engine_gpus(model: ModelSizes, params: RLParams, resources: Resources, share: float) -> int:
    """Return the GPUs of one engine: those of a rank, or of several that hold shards."""
    own = max(1, resources.gpus // resources.ranks_per_node)
    if not resources.sharded or not resources.gpus:
        return own
    memory = None if resources.gpu_memory_gib is None else resources.gpu_memory_gib * GIB
    weights = BYTES[params.dtype] * model.parameters
    return model.engine_gpus(weights, own=own, node=resources.gpus, memory=memory, share=share)


def _copies(model: ModelSizes, params: RLParams, parts: list[Slots], frozen: float, moving: float) -> Iterator[Need]:
    """Yield the networks beside the trained policy.

    A process holds `frozen` of the starting one, and `moving` of one that follows the policy.
    """
    size = BYTES[params.dtype]
    copies = {bool(slots.users_of("keeps_copy")) for slots in parts if slots.needs_reference}
    if params.start_kl_every or False in copies:
        yield Need("starting policy", frozen * size * model.parameters)
    if True in copies:
        yield Need("reference policy", moving * size * model.parameters)


def _critic_needs(model: ModelSizes, params: RLParams, resources: Resources) -> Iterator[Need]:
    """Yield the memory of a value model: a second network that is trained, whole on each process or in shards."""
    size = BYTES[params.dtype]
    trained = model.adapters(params.lora) if params.lora else model.parameters
    if not resources.sharded:
        yield Need("critic", size * model.parameters + state_bytes("adamw", size) * trained)
        yield Need("critic's gradients", size * trained, moment=Moment.PASS)
        return
    given = {"size": size, "trained": trained, "averages": AVERAGES["adamw"], "packed": packed_of(model, params.lora)}
    # Of the second network, what a pass gathers is free while the policy's is held.
    for need in fsdp_needs(model, resources, whole_model=not params.lora, **given):
        if need.name in ("weights", "gradients", "optimiser states"):
            yield replace(need, name=f"critic's {need.name}")
