"""Frozen copies of a policy under FSDP2: each rank holds its shards of their layers, beside whole tables."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from components.modeling.models.policy import Policy
from components.modeling.native.tensor.collectives import parts_of_all
from components.modeling.ranks import current_ranks, ranks_along
from components.modeling.training.fsdp_gather import sharded_weights, standing_in, whole_weight
from components.modeling.training.fsdp_shards import own_rows, shard_layers
from components.runtime.system.mesh import SHARDS, TENSOR


def sharded_copy(policy: Policy) -> Policy:
    """Return an independent frozen copy in the precision of passes; all ranks must call it.

    The weights outside of the layers are whole: it is called where they are gathered (`Trainer.roll_out`).
    """
    blank = {
        id(weight): nn.Parameter(
            torch.empty(weight.shape, dtype=_dtype(policy, weight), device="meta"), requires_grad=False
        )
        for weight in sharded_weights(policy.module)
    }
    with standing_in(policy.module, blank):
        copy = policy.copy()
    copy.compute_dtype = None
    shard_layers(copy, fill=_empty)
    with torch.no_grad():
        for mine, theirs in pairs(copy, policy, trained=False):
            mine.copy_(theirs)
    return copy


def pairs(copy: Policy, policy: Policy, *, trained: bool = True) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's part of each weight of a copy, or of each trained one, and its counterpart in the policy."""
    own = dict(copy.module.named_parameters())
    for name, weight in policy.module.named_parameters():
        if weight.requires_grad or not trained:
            mine = own[name]
            yield _local(mine), _local(weight).to(mine.dtype)


def _local(weight: Tensor) -> Tensor:
    return weight.detach().to_local() if isinstance(weight, DTensor) else weight.detach()


def _dtype(policy: Policy, weight: Tensor) -> torch.dtype:
    return policy.compute_dtype if policy.compute_dtype is not None and weight.requires_grad else weight.dtype


def _empty(policy: Policy, layer: nn.Module) -> None:
    """Give a layer on the meta device memory, whole until it is sharded."""
    for part in layer.modules():
        for name, weight in part._parameters.items():
            if weight is not None and weight.is_meta:
                empty = torch.empty_like(weight, device=policy.device)
                part._parameters[name] = nn.Parameter(empty, requires_grad=False)


def whole_on_first(policy: Policy, name: str) -> Tensor:
    """Return a copy of a whole weight, on the CPU of the first rank alone if it is sharded; all ranks must call it."""
    weight = policy.module.get_parameter(name)
    if not isinstance(weight, DTensor) and not policy.cuts:
        return weight.detach().clone()
    whole = whole_weight(weight) if isinstance(weight, DTensor) else weight.detach()
    if policy.cuts and not policy.cuts[name].alike:
        whole = policy.cuts[name].joined(parts_of_all(whole))
    return whole.to("cpu", copy=True) if current_ranks().first else whole.new_empty(0, device="cpu")


@torch.no_grad()
def fill(policy: Policy, name: str, whole: Tensor) -> None:
    """Give this rank's part of a weight its values from the whole one's."""
    weight, tensor = policy.module.get_parameter(name), ranks_along(TENSOR)
    own = policy.cuts[name].part(whole, tensor.index, tensor.count) if policy.cuts else whole
    _local(weight).copy_(own_rows(own, ranks_along(SHARDS)) if isinstance(weight, DTensor) else own)
