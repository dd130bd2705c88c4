"""Whole weights in the place of some modules' shards, so that a model can be handed over layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import nn
from torch.distributed.tensor import DTensor

from components.modeling.models.policy import Policy


@contextmanager
def fsdp_modules(policy: Policy, modules: Sequence[nn.Module]) -> Iterator[None]:
    """Gather what these modules own themselves, one by one, in the precision of passes; for reading only."""
    sharded = [
        (module, name, weight)
        for module in modules
        for name, weight in module._parameters.items()
        if isinstance(weight, DTensor)
    ]
    wholes: dict[int, nn.Parameter] = {}  # tied weights stay tied
    for _, _, weight in sharded:
        if id(weight) not in wholes:
            # Rounded before it travels; frozen weights are in their precision already.
            rounded = weight.detach().to(policy.compute_dtype if weight.requires_grad else None)
            wholes[id(weight)] = nn.Parameter(rounded.full_tensor(), requires_grad=False)
    try:
        for module, name, weight in sharded:
            module._parameters[name] = wholes[id(weight)]
        yield
    finally:
        for module, name, weight in sharded:
            module._parameters[name] = weight  # type: ignore[assignment]


def zero_modules(modules: Sequence[nn.Module]) -> AbstractContextManager[None]:
    """Gather what these modules own themselves under ZeRO 3, for reading; small weights are whole anyway."""
    import deepspeed
    from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

    owned = (parameter for module in modules for parameter in module._parameters.values())
    away = [p for p in owned if p is not None and getattr(p, "ds_status", None) is ZeroParamStatus.NOT_AVAILABLE]
    gathered: AbstractContextManager[None] = deepspeed.zero.GatheredParameters(away) if away else nullcontext()
    return gathered
