"""The mesh of a job's ranks: data x context x tensor, where several ranks compute one batch together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

DATA, CONTEXT, TENSOR = "data", "context", "tensor"
SHARDS = "shards"
"""Data and context together: the ranks that share out one weight, or one part of it."""
AXES = (DATA, CONTEXT, TENSOR)
"""From the outermost: ranks of one tensor group are neighbours, and so are those of one context group."""

_meshes: dict[str, DeviceMesh] = {}
"""By axis; empty where each rank computes its batches alone."""


def arrange(*, tensor: int = 1, context: int = 1) -> None:
    """Arrange the ranks of torch's process group; all of them must call it. With 1 and 1 there is no mesh."""
    _meshes.clear()
    if tensor == context == 1:
        return
    import torch
    from torch.distributed import get_world_size
    from torch.distributed.device_mesh import init_device_mesh

    data, rest = divmod(get_world_size(), context * tensor)
    if rest:
        raise ValueError(f"{get_world_size()} ranks are not divided by tensor {tensor} x context {context}")
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(kind, (data, context, tensor), mesh_dim_names=AXES)
    _meshes.update({axis: mesh[axis] for axis in AXES}, shards=mesh[DATA, CONTEXT]._flatten(SHARDS))


def mesh_along(axis: str) -> DeviceMesh | None:
    """Return the ranks that differ from this one in their place on one axis alone; None without a mesh."""
    return _meshes.get(axis)
