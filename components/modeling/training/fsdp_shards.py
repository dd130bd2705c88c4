"""How a policy is cut up for FSDP2: each layer is one unit, and all other weights are the root's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from components.modeling.models.policy import Policy
from components.modeling.native.nf4 import PackedMatrix
from components.modeling.packing.logprobs import LOW_PRECISION
from components.modeling.ranks import Ranks
from components.modeling.training.compute import Compute
from components.runtime.system.mesh import SHARDS, mesh_along


def shard_trained(policy: Policy) -> FSDPModule:
    """Shard a policy in place, one layer at a time; return the module to call with a function of the policy.

    Low-precision weights that are trained become float32 shards, rounded where a pass gathers them, and gradients
    are summed in float32: the arithmetic of `MasterWeights`.
    """
    policy.part()
    trained = [weight for _, weight in policy.trainable()]
    low = {weight.dtype for weight in trained} & set(LOW_PRECISION)
    policy.compute_dtype = min(low, key=str) if low else None
    # Adapters are float32 on a frozen bfloat16 model: each weight keeps its precision.
    precision = MixedPrecisionPolicy(
        param_dtype=policy.compute_dtype, reduce_dtype=torch.float32 if low else None, cast_forward_inputs=False
    )
    mesh, root = _mesh(), Compute(policy.module)
    for part in (*policy.layers(), root):
        policy.materialize(part)
        _to_float32(part)
        _with_shardable_codes(part)
        # Between its forward and backward passes the root stays whole: the backward pass begins with its head.
        fully_shard(part, mesh=mesh, mp_policy=precision, reshard_after_forward=part is not root)
        # The sum over ranks is wanted, not the mean; gloo has no other reduction.
        part.set_gradient_divide_factor(1.0)  # type: ignore[attr-defined]
        part.set_force_sum_reduction_for_comms(True)  # type: ignore[attr-defined]
    return root  # type: ignore[return-value]


def shard_frozen(policy: Policy) -> None:
    """Shard the layers of a policy that only scores; embeddings and head stay whole on each rank.

    Each layer gathers its weights by itself when it is called, so all ranks must make equally many passes.
    """
    policy.module.requires_grad_(False)
    policy.part()
    shard_layers(policy, fill=lambda policy, layer: policy.materialize(layer))
    policy.materialize(policy.module)
    policy.module.to(mesh_device(_mesh()))


def shard_layers(policy: Policy, *, fill: Callable[[Policy, nn.Module], None]) -> None:
    """Shard the layers of a frozen policy one by one; `fill` gives each its memory and weights just before."""
    mesh = _mesh()
    for layer in policy.layers():
        fill(policy, layer)
        _with_shardable_codes(layer)
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)


def own_rows(whole: Tensor, ranks: Ranks) -> Tensor:
    """Return this rank's rows of a whole tensor, as fully_shard cuts it; a rank may have none."""
    rows = whole.chunk(ranks.count)
    return rows[ranks.index] if ranks.index < len(rows) else whole[:0]


def mesh_device(mesh: DeviceMesh) -> torch.device:
    """Return this rank's device."""
    return torch.device("cuda", torch.cuda.current_device()) if mesh.device_type == "cuda" else torch.device("cpu")


def _mesh() -> DeviceMesh:
    """Return the ranks that shard a weight: all but those that have another part of it."""
    if (found := mesh_along(SHARDS)) is not None:
        return found
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    return init_device_mesh(kind, (torch.distributed.get_world_size(),))


def _with_shardable_codes(part: nn.Module) -> None:
    """Let weights in 4 bits be sharded as the bytes that they are (as answer.ai's FSDP and QLoRA, 2024)."""
    for matrix in part.modules():
        if isinstance(matrix, PackedMatrix):
            matrix.make_shardable()


def _to_float32(part: nn.Module) -> None:
    """Give the trained weights of low precision that are not sharded yet their float32 values."""
    for weight in part.parameters():
        if weight.requires_grad and weight.dtype in LOW_PRECISION:
            weight.data = weight.data.float()
