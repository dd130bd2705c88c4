"""Whole weights in the place of a policy's shards, for as long as a context lasts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from components.modeling.models.policy import Policy

_OWN = ("_forward_hooks", "_forward_pre_hooks", STATE_KEY, REGISTRY_KEY)
"""Attributes of a module that fully_shard adds or adds to."""


@contextmanager
def gathered(policy: Policy, *, keep: bool, device: torch.device) -> Iterator[None]:
    """Gather all weights one by one, in the precision of passes; where `keep`, the policy holds them on `device`.

    All ranks must enter it. A rank that does not keep them must not use the policy inside.
    """
    wholes: dict[int, nn.Parameter] = {}  # tied weights stay tied
    for weight in sharded_weights(policy.module):
        whole = whole_weight(weight, policy.compute_dtype)
        if keep:
            wholes[id(weight)] = nn.Parameter(whole.to(device), requires_grad=weight.requires_grad)
    if not keep:
        yield
        return
    with standing_in(policy.module, wholes):
        yield


def sharded_weights(module: nn.Module) -> list[DTensor]:
    """Return all weights that are sharded now, each once."""
    found = (weight for part in module.modules() for weight in part._parameters.values())
    return list({id(weight): weight for weight in found if isinstance(weight, DTensor)}.values())


@contextmanager
def standing_in(module: nn.Module, weights: Mapping[int, nn.Parameter]) -> Iterator[None]:
    """Put weights in the places of sharded ones inside, by the `id` of each; the modules are plain ones meanwhile."""
    sharded = [
        (part, name, weight)
        for part in module.modules()
        for name, weight in part._parameters.items()
        if isinstance(weight, DTensor)
    ]
    try:
        for part, name, weight in sharded:
            part._parameters[name] = weights[id(weight)]
        with _plain_modules(module):
            yield
    finally:
        for part, name, weight in sharded:
            part._parameters[name] = weight  # type: ignore[assignment]


def whole_weight(weight: DTensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return a gathered weight; where it is trained, in the precision of passes; all ranks must call it."""
    shard = weight.detach()
    if dtype is not None and weight.requires_grad:
        shard = shard.to(dtype)  # rounded before it travels
    return shard.full_tensor()


@contextmanager
def _plain_modules(module: nn.Module) -> Iterator[None]:
    """Take off FSDP's hooks, class and state inside, so that layers compute with what they hold and can be copied."""
    parts = [part for part in module.modules() if isinstance(part, FSDPModule)]
    kept = [(part, type(part), {name: part.__dict__[name] for name in _OWN if name in part.__dict__}) for part in parts]
    try:
        for part, kind, own in kept:
            for name in own:
                del part.__dict__[name]
            part._forward_hooks, part._forward_pre_hooks = OrderedDict(), OrderedDict()
            part.__class__ = kind.__mro__[2]  # FSDP<Class>(FSDPModule, <Class>)
        yield
    finally:
        for part, kind, own in kept:
            part.__class__ = kind
            part.__dict__.update(own)
