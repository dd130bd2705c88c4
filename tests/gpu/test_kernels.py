"""Kernels of attention and compiled operators on a GPU: the values and gradients of plain torch."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from components.modeling.native import ops
from components.modeling.native.attention import attend, flex
from components.modeling.native.attention.flash import attend_flash
from components.modeling.native.attention.padded import attend_padded
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.ragged import Segment
from tests.gpu.device import DEVICE, gpu_only

pytestmark = [pytest.mark.gpu, gpu_only("kernels for CUDA")]

HEADS, KV_HEADS, WIDTH = 8, 2, 64
PACK = (Segment(0, 700), Segment(700, 900, 0, 700), Segment(1600, 40, 0, 700), Segment(1640, 600), Segment(2240, 300))


def both(name: str, qkv: Tensor, plan: AttentionPlan, window: int | None, limit: float | None) -> tuple[Tensor, Tensor]:
    """Return a kernel's outputs and the gradient of a weighted sum of them."""
    if name == "flash":
        out = attend_flash(qkv, plan.calls(window), HEADS, KV_HEADS)
    else:
        heads = qkv.unflatten(1, (-1, WIDTH)).split((HEADS, KV_HEADS, KV_HEADS), dim=1)
        if name == "flex":
            out = flex.attend_flex(*heads, plan.blocks(window), limit)
        else:
            out = attend_padded(*heads, plan.buckets, window, limit)
    weights = torch.linspace(-1, 1, out.shape[1], device=out.device, dtype=out.dtype)
    return out, torch.autograd.grad((out * weights).sum(), qkv)[0]


@pytest.mark.parametrize("window", [None, 200])
@pytest.mark.parametrize(
    ("name", "dtype", "limit", "bound"),
    [
        ("flash", torch.bfloat16, None, 2e-2),
        ("flex", torch.bfloat16, 20.0, 2e-2),
        ("flex", torch.float32, None, 1e-4),
        ("flex", torch.float32, 20.0, 1e-4),
    ],
)
def test_kernels_against_float64(
    name: str, dtype: torch.dtype, limit: float | None, bound: float, window: int | None
) -> None:
    plan = AttentionPlan(PACK, torch.device(DEVICE))
    generator = torch.Generator(DEVICE).manual_seed(0)
    shape = (plan.num_tokens, (HEADS + 2 * KV_HEADS) * WIDTH)
    qkv = torch.randn(shape, generator=generator, device=DEVICE).to(dtype).requires_grad_()
    exact = both("padded", qkv.detach().double().requires_grad_(), plan, window, limit)
    for ours, theirs in zip(both(name, qkv, plan, window, limit), exact, strict=True):
        assert float((ours.double() - theirs).norm() / theirs.norm()) < bound


def test_flex_compiles_here() -> None:
    assert flex.compiles(torch.float32, HEADS, KV_HEADS, WIDTH, None)
    assert flex.compiles(torch.bfloat16, HEADS, KV_HEADS, WIDTH, 50.0)


@pytest.mark.parametrize("case", ["norm", "Gemma's norm", "swiglu", "geglu", "rotate"])
def test_compiled_operators_against_float64(case: str) -> None:
    generator = torch.Generator(DEVICE).manual_seed(0)
    x, gain = (torch.randn(shape, generator=generator, device=DEVICE) for shape in ((3000, 1536), (1536,)))
    angles = torch.rand(3000, 1, 32, generator=generator, device=DEVICE)
    turns = torch.polar(torch.ones_like(angles), angles)

    def computed(x: Tensor) -> Tensor:
        wide = gain.to(x.dtype)
        return {
            "norm": lambda: ops.rms_norm(x, wide, 1e-6),
            "Gemma's norm": lambda: ops.rms_norm_from_one(x, wide, 1e-6),
            "swiglu": lambda: ops.swiglu(x),
            "geglu": lambda: ops.geglu(x),
            "rotate": lambda: ops.rotate(x * 1.0, turns, 16, 64),
        }[case]()

    results = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*does not compile here")
        for dtype in (torch.float64, torch.bfloat16):
            given = x.bfloat16().to(dtype).requires_grad_()
            out = computed(given)
            grad = torch.autograd.grad(out.sum(), given)[0]
            results.append((out.double(), grad.double()))
    for theirs, ours in zip(*results, strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 1e-2


def test_half_precision_takes_the_flash_kernel() -> None:
    plan = AttentionPlan(PACK, torch.device(DEVICE))
    qkv = torch.empty(plan.num_tokens, (HEADS + 2 * KV_HEADS) * WIDTH, dtype=torch.bfloat16, device=DEVICE)
    assert attend.choose(qkv, plan, HEADS, KV_HEADS, None) == "flash"
