"""Norm, rotary positions and gates for CUDA: each pass is one compiled kernel that computes in float32.

Shapes: N rows, K features, F output features, H heads, C head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from components.modeling.packing.compiled import Compiled


def _norm(x: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    wide = x.float()
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return (wide * scale * gain.float()).to(x.dtype), scale


def _norm_backward(grad: Tensor, x: Tensor, gain: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    wide, normed = grad.float(), x.float() * scale
    grad_gain = (wide * normed).flatten(0, -2).sum(0)
    grad_normed = wide * gain.float()
    inner = (grad_normed * normed).mean(-1, keepdim=True)
    return ((grad_normed - normed * inner) * scale).to(x.dtype), grad_gain.to(gain.dtype)


def _swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


def _swiglu_backward(grad: Tensor, gate_up: Tensor) -> Tensor:
    wide = grad.float()
    gate, up = gate_up.float().chunk(2, -1)
    chance = torch.sigmoid(gate)
    grad_gate = wide * up * chance * (1 + gate * (1 - chance))
    return torch.cat((grad_gate, wide * gate * chance), -1).to(gate_up.dtype)


def _geglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, -1)
    return (torch.nn.functional.gelu(gate, approximate="tanh") * up).to(gate_up.dtype)


def _geglu_backward(grad: Tensor, gate_up: Tensor) -> Tensor:
    wide = grad.float()
    gate, up = gate_up.float().chunk(2, -1)
    inner = torch.tanh(0.7978845608028654 * (gate + 0.044715 * gate**3))  # sqrt(2 / pi)
    slope = 0.7978845608028654 * (1 + 3 * 0.044715 * gate.square())
    grad_gate = wide * up * (0.5 * (1 + inner) + 0.5 * gate * (1 - inner.square()) * slope)
    return torch.cat((grad_gate, wide * 0.5 * gate * (1 + inner)), -1).to(gate_up.dtype)


def _turn(part: Tensor, turns: Tensor, heads: int, sign: float) -> None:
    pairs = part.float().unflatten(1, (heads, -1, 2))
    real, imaginary = pairs.unbind(-1)
    cosine, sine = turns[..., 0], turns[..., 1] * sign
    turned = torch.stack((real * cosine - imaginary * sine, real * sine + imaginary * cosine), -1)
    part.copy_(turned.flatten(1))


norm, norm_backward = Compiled(_norm), Compiled(_norm_backward)
GATES = {
    "swiglu": (Compiled(_swiglu), Compiled(_swiglu_backward)),
    "geglu": (Compiled(_geglu), Compiled(_geglu_backward)),
}
turn = Compiled(_turn)


class FusedNorm(torch.autograd.Function):
    """x / rms(x) * gain."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """Return [..., K] of x [..., K] and gain [K]."""
        out, scale = norm(x, gain, eps)
        ctx.save_for_backward(x, gain, scale)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of x and gain."""
        x, gain, scale = ctx.saved_tensors
        return *norm_backward(grads[0], x, gain, scale), None


class FusedGate(torch.autograd.Function):
    """A gate of GATES."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor, name: str) -> Tensor:
        """Return [N, F] of gate_up [N, 2F]."""
        ctx.save_for_backward(gate_up)
        ctx.name = name
        return GATES[name][0](gate_up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of gate_up."""
        (gate_up,) = ctx.saved_tensors
        backward: Callable[..., Tensor] = GATES[ctx.name][1]
        return backward(grads[0], gate_up), None


def turn_(qkv: Tensor, turns: Tensor, heads: int, width: int, *, back: bool = False) -> Tensor:
    """Turn, or turn back, the first `heads` heads of qkv [N, >= H * C] by complex turns [N, 1, C/2], in place."""
    turn(qkv[:, : heads * width], torch.view_as_real(turns), heads, -1.0 if back else 1.0)
    return qkv
