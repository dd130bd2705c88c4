"""Products of activations with weights that stay the same for a whole call, in the layout that a library reads fastest.

Shapes: R rows, K and O input and output features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from components.modeling.native.ops import FEW_PRODUCTS, ONEDNN
from components.runtime.system.products import MKL, in_use

WIDEST_TRANSPOSED = 1024
"""Most output features of a weight that MKL reads transposed. The rows of wider ones lie a multiple of 4 KiB or more
apart, where they push one another out of the cache: MKL's own layout, made for one number of rows, is twice as fast."""


class Product(ABC):
    """x [R, K] @ weight [O, K].T, with the operation that follows fused in where the library can."""

    @abstractmethod
    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x @ weight.T + bias, [R, O]."""

    @abstractmethod
    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Return total + x @ weight.T, [R, O]; total may be overwritten."""


class GatedProduct(ABC):
    """silu(x @ gate.T) * (x @ up.T), for gate_up [2O, K] that holds both."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """Return the gated activation [R, O]."""


class OneDnnProduct(Product):
    """By oneDNN; few products by the default BLAS, which starts earlier."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    @cached_property
    def packed(self) -> Tensor:
        """The weight in oneDNN's own layout; otherwise every product would reorder it."""
        return torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def is_small(self, x: Tensor) -> bool:
        """Return whether the default BLAS is faster (see ops.matmul_transposed)."""
        return x.shape[0] * self.weight.numel() <= FEW_PRODUCTS

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x @ weight.T + bias, [R, O]."""
        if not self.is_small(x):
            return ONEDNN.default(x, self.packed, bias, "none", [], "")
        return torch.mm(x, self.weight.t()) if bias is None else torch.addmm(bias, x, self.weight.t())

    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Return total + x @ weight.T, [R, O]; total may be overwritten."""
        if self.is_small(x):
            return total.addmm_(x, self.weight.t())
        return ONEDNN.binary(x, total, self.packed, None, "add")


class OneDnnGatedProduct(GatedProduct):
    """The activation and the multiplication are part of oneDNN's products."""

    def __init__(self, gate_up: Tensor) -> None:
        self.both = OneDnnProduct(gate_up)
        self.gate, self.up = (OneDnnProduct(half) for half in gate_up.chunk(2))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the gated activation [R, O]."""
        if self.both.is_small(x):
            return _gated(self.both(x))
        gate = ONEDNN.default(x, self.gate.packed, None, "swish", [], "")
        return ONEDNN.binary(x, gate, self.up.packed, None, "mul")


class MklProduct(Product):
    """By MKL, from transposed weights, which it need not transpose at every product."""

    def __init__(self, weight: Tensor) -> None:
        self.columns = weight.t().contiguous()

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x @ weight.T + bias, [R, O]."""
        return torch.mm(x, self.columns) if bias is None else torch.addmm(bias, x, self.columns)

    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Return total + x @ weight.T, [R, O]; total may be overwritten."""
        return total.addmm_(x, self.columns)


class PackedMklProduct(Product):
    """By MKL, from its own layout; another number of rows packs the weight again."""

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.rows = weight, 0

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x @ weight.T + bias, [R, O]."""
        if x.shape[0] != self.rows:
            self.rows = x.shape[0]
            self.packed = torch.ops.mkl._mkl_reorder_linear_weight(self.weight, self.rows)
        return torch.ops.mkl._mkl_linear(x, self.packed, self.weight, bias, self.rows)

    def add_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Return total + x @ weight.T, [R, O]; total may be overwritten."""
        return total.add_(self(x))


class MklGatedProduct(GatedProduct):
    """One product, then the activation."""

    def __init__(self, gate_up: Tensor) -> None:
        self.both = mkl_product(gate_up)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the gated activation [R, O]."""
        return _gated(self.both(x))


def mkl_product(weight: Tensor) -> Product:
    """Return MKL's product with a weight [O, K] of any width."""
    return MklProduct(weight) if weight.shape[0] <= WIDEST_TRANSPOSED else PackedMklProduct(weight)


def product(weight: Tensor, gain: Tensor | None = None) -> Product:
    """Return the product with a weight [O, K] whose columns are scaled by `gain` [K], if given."""
    weight = weight if gain is None else weight * gain
    return mkl_product(weight) if in_use().sampling == MKL else OneDnnProduct(weight)


def gated_product(gate_up: Tensor, gain: Tensor) -> GatedProduct:
    """Return the gated product with a weight [2O, K] whose columns are scaled by `gain` [K]."""
    gate_up = gate_up * gain
    return MklGatedProduct(gate_up) if in_use().sampling == MKL else OneDnnGatedProduct(gate_up)


def _gated(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate).mul_(up)
