"""Frozen matrices in 4 bits: NormalFloat with double quantisation (QLoRA, Dettmers et al. 2023, arXiv:2305.14314).

Plain torch, so that it runs on any device and without a library. A scale for every 64 weights, itself 8 bits with a
scale for every 256 of them: 4.13 bits a weight.

Shapes: O and K rows and columns of a matrix, N tokens, S scales (one a block of weights).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from components.modeling.native.decoder import Decoder
from components.modeling.native.ops import matmul_transposed

# fmt: off
LEVELS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)
# fmt: on
"""The paper's appendix E: quantiles of a normal distribution, with 0 and both ends."""
BLOCK, SCALE_BLOCK = 64, 256
MATRICES = ("qkv", "attention_out", "gate_up", "down")


class PackedMatrix(nn.Module):
    """A matrix [O, K] that is read and never trained."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.shape, self.dtype = tuple(weight.shape), weight.dtype
        blocks = _blocks(weight.detach().float(), BLOCK)
        scales = blocks.abs().amax(1)
        levels = torch.tensor(LEVELS, device=weight.device)
        unit = blocks / torch.where(scales > 0, scales, 1.0).unsqueeze(1)
        codes = torch.bucketize(unit, (levels[1:] + levels[:-1]) / 2).to(torch.uint8).flatten()
        self.register_buffer("codes", codes[::2] << 4 | codes[1::2])
        self.mean = float(scales.mean())
        rest = _blocks(scales - self.mean, SCALE_BLOCK)
        outer = rest.abs().amax(1)
        steps = (127 * rest / torch.where(outer > 0, outer, 1.0).unsqueeze(1)).round().to(torch.int8)
        self.register_buffer("scale_steps", steps)
        # As integers: what casts a module to another precision leaves them as they are.
        self.register_buffer("outer_bits", outer.view(torch.int32))

    def weight(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return the matrix [O, K], by default in the precision that it had."""
        levels = torch.tensor(LEVELS, device=self.codes.device)
        codes = torch.stack((self.codes >> 4, self.codes & 15), dim=1).flatten()
        scales = self.scale_steps * (self.outer_bits.view(torch.float32) / 127).unsqueeze(1) + self.mean
        blocks = levels[codes.int()].view(-1, BLOCK)
        whole = blocks * scales.flatten()[: blocks.shape[0]].unsqueeze(1)
        return whole.flatten()[: math.prod(self.shape)].view(self.shape).to(dtype or self.dtype)

    def make_shardable(self) -> None:
        """Hold the codes and scales as frozen parameters, which fully_shard cuts up; buffers it leaves whole."""
        for name, buffer in list(self.named_buffers()):
            delattr(self, name)
            self.register_parameter(name, nn.Parameter(buffer, requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        """Return x [N, K] @ matrix.T; the backward pass unpacks the matrix again instead of keeping it."""
        return _PackedLinear.apply(x, self)


class _PackedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: PackedMatrix) -> Tensor:
        ctx.matrix = matrix
        return matmul_transposed(x, matrix.weight(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return matmul_transposed(grads[0], ctx.matrix.weight(grads[0].dtype).t()), None


def _blocks(values: Tensor, size: int) -> Tensor:
    """Return values in rows of `size`, the last one filled with 0."""
    flat = values.flatten()
    return pad(flat, (0, -flat.shape[0] % size)).view(-1, size)


def pack(decoder: Decoder, device: torch.device | str) -> None:
    """Keep the matrices of all layers in 4 bits, on a device; they are packed there, one at a time."""
    for layer in decoder.layers:
        for name in MATRICES:
            layer.packed[name] = PackedMatrix(getattr(layer, name).to(device))
            layer.register_parameter(name, None)
        layer.plain = False
