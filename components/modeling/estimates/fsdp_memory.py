"""Memory of training under FSDP2: shards of everything, and the weights and gradients that a pass gathers.

Zhao et al. 2023 (arXiv:2304.11277), section 3. Free of torch, so that plans can import it.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.job import Resources
from components.contract.memory import GIB, Moment, Need
from components.modeling.models.model_sizes import ModelSizes

GATHERED_LAYERS = 2
"""The layer that runs and the next one, which is fetched meanwhile."""
MASTER = 4
"""Bytes of a trained weight, a gradient, or an average: all of them are float32."""

PACKED = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes of a weight in 4 bits, with its share of the scales (components/modeling/native/nf4.py)."""


def fsdp_needs(
    sizes: ModelSizes,
    resources: Resources,
    *,
    size: int,
    trained: int,
    averages: int,
    whole_model: bool,
    packed: int = 0,
) -> Iterator[Need]:
    """Yield the memory of one rank's shards, and of what it gathers in a pass.

    `sizes` are those of its tensor rank's part of the model. `size` is the bytes of a weight in passes, `trained` how
    many weights of the part are updated, with `averages` of the gradients of each; `whole_model` says whether that is
    all of it, whose weights are then the float32 ones that the optimiser updates, and not adapters beside it. `packed`
    of its weights are kept in 4 bits, and travel so; a layer's are unpacked while it computes.
    """
    ranks = resources.world_size // resources.tensor_parallel
    kept = MASTER * trained + (0 if whole_model else size * (sizes.parameters - packed) + PACKED * packed)
    yield Need("weights", kept / ranks)
    yield Need("gradients", MASTER * trained / ranks, moment=Moment.PASS)
    yield Need("optimiser states", averages * MASTER * trained / ranks)
    layer, tables = layer_parameters(sizes), table_parameters(sizes)
    each = packed / sizes.layers
    gathered = size * (GATHERED_LAYERS * (layer - each) + tables) + GATHERED_LAYERS * PACKED * each
    yield Need("gathered weights", gathered + size * each, moment=Moment.PASS)
    if whole_model:  # as passes compute them, and in float32 where they are summed over the ranks
        yield Need("gathered gradients", (size + MASTER) * max(layer, tables), moment=Moment.PASS)


def drawing_by_layers(sizes: ModelSizes, resources: Resources, *, size: int, adapters: int, packed: int = 0) -> bool:
    """Return whether no rank holds a whole copy of the model to draw and score with."""
    gpu = resources.gpu_memory_gib if resources.gpus else None
    whole = size * (sizes.parameters - packed + adapters) + PACKED * packed
    return resources.sharded and resources.gathers_layers(whole, None if gpu is None else gpu * GIB)


def gathered_to_draw(sizes: ModelSizes, *, size: int, adapters: int, by_layers: bool, packed: int = 0) -> Need:
    """Return what a rank gathers to draw and score: layers with the tables, or the whole model."""
    if by_layers:
        held = size * (GATHERED_LAYERS * layer_parameters(sizes) + table_parameters(sizes))
        return Need("layers to draw and score with", held, moment=Moment.BETWEEN)
    whole = size * (sizes.parameters - packed + adapters) + (PACKED + size / sizes.layers) * packed
    return Need("whole weights to draw and score with", whole, moment=Moment.BETWEEN)


def table_parameters(sizes: ModelSizes) -> int:
    """Return the weights outside the layers: embeddings, head and the last norm."""
    return sizes.vocab * sizes.width * (1 if sizes.tied else 2) + sizes.width


def layer_parameters(sizes: ModelSizes) -> int:
    """Return the weights of one layer."""
    return (sizes.parameters - table_parameters(sizes)) // sizes.layers


def frozen_share(sizes: ModelSizes, resources: Resources) -> float:
    """Return the share of a frozen model that a rank holds: its shard of the layers, and all tables."""
    if not resources.sharded:
        return 1.0
    part, ranks = sizes.part(resources.tensor_parallel), resources.world_size // resources.tensor_parallel
    tables = table_parameters(part)
    return (tables + (part.parameters - tables) / ranks) / sizes.parameters
