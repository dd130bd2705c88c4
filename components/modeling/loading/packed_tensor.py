"""Frozen weights of transformers' models in 4 bits: tensors that whatever reads them unpacks.

So peft's adapters, experts that are stacked in one parameter, and the architectures' own code need not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from components.modeling.native.nf4 import PackedMatrix

_KEPT = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)

_SET = torch.ops.aten.set_.source_Tensor


class PackedTensor(Tensor):
    """A tensor of any shape that is held as NormalFloat of 4 bits; every operation gets its values."""

    matrix: PackedMatrix

    @staticmethod
    def __new__(cls, matrix: PackedMatrix) -> PackedTensor:
        """Wrap what holds the codes."""
        device = matrix.codes.device
        made: PackedTensor = Tensor._make_wrapper_subclass(cls, matrix.shape, dtype=matrix.dtype, device=device)
        made.matrix = matrix
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute with unpacked values; what would change them in place is a mistake of ours."""
        if func in _KEPT:
            return PackedTensor(args[0].matrix)
        if func is _SET and isinstance(args[1], PackedTensor) and args[0].matrix is args[1].matrix:
            return args[0]  # as torch's parametrizations, with which peft adapts experts, set a weight to itself
        assert not (func._schema.is_mutable and isinstance(args[0], PackedTensor)), f"{func} writes to packed weights"
        unpack: Callable[[PackedTensor], Tensor] = lambda tensor: tensor.matrix.weight()  # noqa: E731
        # Views of it are views of a plain tensor, in inference mode too.
        with torch.inference_mode(False):
            args, kwargs = (tree_map_only(PackedTensor, unpack, given) for given in (args, dict(kwargs or {})))
            return func(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Share the codes with the copy: nothing changes them."""
        return nn.Parameter(PackedTensor(self.matrix), requires_grad=False)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        """Return the shape."""
        return f"PackedTensor({tuple(self.shape)}, {self.dtype})"


def pack_layers(layers: Iterable[nn.Module], device: torch.device | str) -> None:
    """Keep the matrices of these layers in 4 bits on a device, where they are packed one at a time.

    Those of linear layers, and of experts that are stacked in one parameter; routers, norms and biases stay whole.
    """
    from transformers.pytorch_utils import Conv1D

    for layer in layers:
        for part in layer.modules():
            for name, weight in part._parameters.items():
                if weight is not None and (
                    weight.ndim == 3 or (weight.ndim == 2 and isinstance(part, nn.Linear | Conv1D))
                ):
                    packed = PackedTensor(PackedMatrix(weight.detach().to(device)))
                    part._parameters[name] = nn.Parameter(packed, requires_grad=False)
