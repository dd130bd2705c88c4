"""Layers for generation: the weights stay the same for a whole call, so they are prepared once.

Gains of norms are folded into the matrix that follows; additions to the residual stream and the gated activation are
fused into the products. For float32 on the CPU, where memory traffic between small products costs as much as they do.

Shapes: R rows, D model width, H query heads, G key-value heads, C head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from components.modeling.native.adapters import merged
from components.modeling.native.decoder import Decoder, Layer
from components.modeling.native.ops import ONEDNN, rotate
from components.modeling.native.products import gated_product, product
from components.runtime.system.products import MKL, in_use

MOST_BYTES, MOST_BYTES_MKL = 256 << 20, 1 << 30
"""Largest model that is prepared: the prepared weights are copies. oneDNN keeps two or three of most matrices, MKL one
or two, and gains more on large ones."""


class StepLayer:
    """One transformer block with the interface of decoder.Layer."""

    def __init__(self, layer: Layer) -> None:
        c = self.config = layer.config
        # Attribute look-ups on modules are slow.
        self.qkv_bias = layer.qkv_bias
        self.norm_heads = layer.norm_heads if c.head_norm else None
        self.norm = UnitNorm(c.width, c.norm_eps)
        self.qkv = product(merged(layer, "qkv"), layer.attention_norm * self.norm.gain)
        self.out = product(merged(layer, "attention_out"))
        self.gated = gated_product(merged(layer, "gate_up"), layer.mlp_norm * self.norm.gain)
        self.down = product(merged(layer, "down"))

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
        return self.down.add_to(x, self.gated(self.norm(x)))


class StepDecoder:
    """All layers and the head."""

    def __init__(self, decoder: Decoder) -> None:
        c = decoder.config
        self.layers = [StepLayer(layer) for layer in decoder.layers]
        self.norm = UnitNorm(c.width, c.norm_eps)
        self.head = product(decoder.output_weight, decoder.norm * self.norm.gain)

    @staticmethod
    def serves(decoder: Decoder) -> bool:
        """Return whether the decoder's weights are worth preparing."""
        weight = decoder.embedding
        packed = [matrix.shape for layer in decoder.layers for matrix in layer.packed.values()]
        size = sum(map(math.prod, [*packed, *(p.shape for p in decoder.parameters())])) * weight.element_size()
        return (
            ONEDNN is not None
            and not decoder.parted
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
            and not any(hasattr(layer, "unshard") for layer in decoder.layers)  # no weights to copy between calls
            and size < (MOST_BYTES_MKL if in_use().sampling == MKL else MOST_BYTES)
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
