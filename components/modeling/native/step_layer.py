"""Layers for generation: the weights stay the same for a whole call, so they are prepared once.

Gains of norms are folded into the matrix that follows; additions to the residual stream and the gated activation are
fused into the products. For float32 on the CPU, where memory traffic between small products costs as much as they do.

Shapes: R rows, D model width, H query heads, G key-value heads, C head width, K and O input and output features.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from components.modeling.native.adapters import merged
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.ops import FEW_PRODUCTS, ONEDNN, rotate

MOST_BYTES = 256 << 20
"""Largest model that is prepared: the prepared weights are copies, two for most matrices."""


class Product:
    """x [R, K] @ weight [O, K].T, with the operation that follows fused in."""

    def __init__(self, weight: Tensor, gain: Tensor | None = None) -> None:
        self.weight = weight if gain is None else weight * gain

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


class StepLayer:
    """One transformer block with the interface of decoder.Layer."""

    def __init__(self, layer: Layer) -> None:
        c = self.config = layer.config
        # Attribute look-ups on modules are slow.
        self.qkv_bias = layer.qkv_bias
        self.norm_heads = layer.norm_heads if c.head_norm else None
        self.norm = UnitNorm(c.width, c.norm_eps)
        self.qkv = Product(merged(layer, "qkv"), layer.attention_norm * self.norm.gain)
        self.out = Product(merged(layer, "attention_out"))
        self.gate_up = Product(merged(layer, "gate_up"), layer.mlp_norm * self.norm.gain)
        self.gate, self.up = (Product(half) for half in self.gate_up.weight.chunk(2))
        self.down = Product(merged(layer, "down"))

    def project(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return fused, rotated queries, keys and values [R, (H + 2G) * C] of x [R, D]."""
        c = self.config
        qkv = self.qkv(self.norm(x), self.qkv_bias)
        if self.norm_heads is not None:
            qkv = self.norm_heads(qkv)
        return rotate(qkv, turns, c.heads + c.kv_heads, c.head_width)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the block's output [R, D] from its input x, which may be overwritten, and the heads' outputs."""
        x = self.out.add_to(x, attended)
        normed = self.norm(x)
        if self.gate_up.is_small(x):
            gate, up = self.gate_up(normed).chunk(2, -1)
            hidden = torch.nn.functional.silu(gate).mul_(up)
        else:
            gate = ONEDNN.default(normed, self.gate.packed, None, "swish", [], "")
            hidden = ONEDNN.binary(normed, gate, self.up.packed, None, "mul")
        return self.down.add_to(x, hidden)


class StepDecoder:
    """All layers and the head."""

    def __init__(self, decoder: Decoder) -> None:
        c = decoder.config
        self.layers = [StepLayer(layer) for layer in decoder.layers]
        self.norm = UnitNorm(c.width, c.norm_eps)
        self.head = Product(decoder.output_weight, decoder.norm * self.norm.gain)

    @staticmethod
    def serves(decoder: Decoder) -> bool:
        """Return whether the decoder's weights are worth preparing."""
        weight = decoder.embedding
        packed = [matrix.shape for layer in decoder.layers for matrix in layer.packed.values()]
        size = sum(map(math.prod, [*packed, *(p.shape for p in decoder.parameters())])) * weight.element_size()
        return (
            ONEDNN is not None
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
            and size < MOST_BYTES
            and decoder.config.norm == "rms"  # Gemma's blocks normalise what they add: nothing of them can be fused
        )

    def logits(self, x: Tensor) -> Tensor:
        """Return logits [R, V] of the last block's output x [R, D]."""
        return self.head(self.norm(x))


class UnitNorm:
    """x / rms(x) without the constant factor `gain`, which belongs in the matrix that follows."""

    def __init__(self, width: int, eps: float) -> None:
        self.gain = width**0.5
        # x / sqrt(sum(x^2) / width + eps) = sqrt(width) * x / sqrt(sum(x^2) + width * eps)
        self.floor = torch.tensor((width * eps) ** 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x [R, D] scaled to nearly unit length: hypot with `floor` avoids a division by zero."""
        return x.div(torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.floor))
