"""Operators of the native decoder, each with its own backward so that training keeps few tensors.

Shapes: N tokens, K input features, F output features, H heads, C head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from components.modeling.native.fused import FusedGate, FusedNorm, turn_
from components.modeling.packing.compiled import is_worth_compiling
from components.runtime.system.products import MKL, in_use

ONEDNN = torch.ops.mkldnn._linear_pointwise if torch.backends.mkldnn.is_available() else None
FEW_PRODUCTS = 6_500_000
"""Multiplications up to which the default BLAS is faster: between other operators oneDNN starts 20 us later."""


def matmul_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """Return x [N, K] @ weight [F, K].T, without gradients.

    Large float32 products on the CPU go through oneDNN: the default BLAS (MKL) stays on AVX2 on AMD processors, where
    oneDNN uses AVX-512 and is up to 2.3 times as fast at the shapes of small models. Without AVX-512 it is MKL that is
    faster: see the table of product_choice.
    """
    if ONEDNN is None or x.shape[0] * weight.numel() <= FEW_PRODUCTS:
        return x @ weight.t()
    if x.dtype == torch.float32 and x.device.type == "cpu" and in_use().training != MKL:
        return ONEDNN(x, weight, None, "none", [], "")
    return x @ weight.t()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return matmul_transposed(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        (grad,) = grads
        grad_x = matmul_transposed(grad, weight.t()) if ctx.needs_input_grad[0] else None
        grad_weight = _weight_gradient(grad, x) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight


def _weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Return grad [N, F].T @ x [N, K] -> [F, K]; oneDNN is faster with the smaller side as rows."""
    if grad.shape[1] <= x.shape[1]:
        return matmul_transposed(grad.t(), x.t())
    return matmul_transposed(x.t(), grad.t()).t()


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Return x [N, K] @ weight [F, K].T."""
    return _Linear.apply(x, weight) if torch.is_grad_enabled() else matmul_transposed(x, weight)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        scale = _inverse_rms(x, eps)
        ctx.save_for_backward(x, gain, scale)
        return (x * scale).mul_(gain)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scale = ctx.saved_tensors
        (grad,) = grads
        normed = x * scale
        grad_gain = (grad * normed).flatten(0, -2).sum(0)
        grad_normed = grad * gain
        inner = torch.linalg.vecdot(grad_normed, normed).div_(x.shape[-1]).unsqueeze(-1)
        return grad_normed.sub_(normed.mul_(inner)).mul_(scale), grad_gain, None


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    return torch.linalg.vecdot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_().unsqueeze(-1)


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return x / rms(x) * gain over the last axis (Zhang and Sennrich 2019, eq. 4)."""
    if is_worth_compiling(x):
        return FusedNorm.apply(x, gain, eps)
    if x.dtype in (torch.float16, torch.bfloat16):  # the mean needs float32
        return torch.nn.functional.rms_norm(x, gain.shape, gain, eps)
    if torch.is_grad_enabled():
        return _RMSNorm.apply(x, gain, eps)
    return (x * _inverse_rms(x, eps)).mul_(gain)


def rms_norm_from_one(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x / rms(x) * (1 + weight) over the last axis, as Gemma's norms do."""
    if is_worth_compiling(x):
        return FusedNorm.apply(x, 1.0 + weight.float(), eps)
    if x.dtype in (torch.float16, torch.bfloat16):  # 1 + weight would lose the weight's last bits
        return torch.nn.functional.rms_norm(x.float(), weight.shape, 1.0 + weight.float(), eps).to(x.dtype)
    return rms_norm(x, 1.0 + weight, eps)


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        return _swiglu(gate_up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        (grad,) = grads
        gate, up = gate_up.chunk(2, -1)
        out = torch.empty_like(gate_up)
        grad_gate, grad_up = out.chunk(2, -1)
        scratch = torch.nn.functional.silu(gate)
        torch.mul(grad, scratch, out=grad_up)
        torch.mul(grad, up, out=scratch)
        torch.ops.aten.silu_backward.grad_input(scratch, gate, grad_input=grad_gate)
        return out


def _swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate).mul_(up)


def swiglu(gate_up: Tensor) -> Tensor:
    """Return silu(gate) * up for gate_up [N, 2F] -> [N, F] (Shazeer 2020, eq. 5)."""
    if is_worth_compiling(gate_up):
        return FusedGate.apply(gate_up, "swiglu")
    return _SwiGLU.apply(gate_up) if torch.is_grad_enabled() else _swiglu(gate_up)


class _GeGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        return _geglu(gate_up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        (grad,) = grads
        gate, up = gate_up.chunk(2, -1)
        grad_gate = torch.ops.aten.gelu_backward(grad * up, gate, approximate="tanh")
        return torch.cat((grad_gate, grad * torch.nn.functional.gelu(gate, approximate="tanh")), -1)


def _geglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.gelu(gate, approximate="tanh").mul_(up)


def geglu(gate_up: Tensor) -> Tensor:
    """Return gelu(gate) * up for gate_up [N, 2F] -> [N, F] (Shazeer 2020, eq. 5), gelu by its tanh approximation."""
    if is_worth_compiling(gate_up):
        return FusedGate.apply(gate_up, "geglu")
    return _GeGLU.apply(gate_up) if torch.is_grad_enabled() else _geglu(gate_up)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, turns: Tensor, heads: int, width: int) -> Tensor:
        ctx.save_for_backward(turns)
        ctx.sizes = heads, width
        ctx.mark_dirty(qkv)
        return _turn_(qkv, turns, heads, width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (turns,) = ctx.saved_tensors
        # In place: attention, the only reader of rotated projections, has just allocated this gradient.
        if is_worth_compiling(grads[0]):
            return turn_(grads[0], turns, *ctx.sizes, back=True), None, None, None
        return _turn_(grads[0], turns.conj().resolve_conj(), *ctx.sizes), None, None, None


def _turn_(qkv: Tensor, turns: Tensor, heads: int, width: int) -> Tensor:
    if is_worth_compiling(qkv):
        return turn_(qkv, turns, heads, width)
    part = qkv[:, : heads * width]
    if qkv.dtype in (torch.float32, torch.float64):
        torch.view_as_complex(part.view(-1, heads, width // 2, 2)).mul_(turns)
    else:
        pairs = torch.view_as_complex(part.float().unflatten(1, (heads, width // 2, 2)))
        part.copy_(torch.view_as_real(pairs * turns).flatten(1))
    return qkv


def rotate(qkv: Tensor, turns: Tensor, heads: int, width: int) -> Tensor:
    """Turn the first `heads` heads of qkv [N, F] by rotary angles, in place (Su et al. 2021, eq. 34).

    turns: complex [N, 1, C/2]. Checkpoints in Hugging Face layout pair feature i with i + C/2; the decoder
    interleaves its query and key rows instead, so that neighbours pair up and one complex product rotates them.
    """
    if torch.is_grad_enabled():
        return _Rotate.apply(qkv, turns, heads, width)
    return _turn_(qkv, turns, heads, width)
