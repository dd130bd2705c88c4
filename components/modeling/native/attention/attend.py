"""Ragged causal attention over a pack of segments, each with an optional shared prefix, by the fastest kernel there is.

| where | kernel |
| --- | --- |
| CUDA, bfloat16 or float16, scores not capped | flash: no padding, no copies of shared heads or prefixes |
| CUDA, float32 or capped scores, long packs | flex, if Triton compiles it |
| CPU, at most 256 keys a segment, scores not capped | batched products |
| else | buckets of padded segments |

No layer waits for the device: what a kernel needs of the pack is built on the host, once for all layers.

Where a pack is divided over the ranks of a context group, a rank has its tokens' queries, and each layer gathers the
keys and values of all tokens, again in its backward pass; gradients of keys and values are summed over the ranks.

Shapes: N tokens, H query heads, G key-value heads, C head width, F = (H + 2G) C features of fused projections.
"""

from __future__ import annotations

import functools
from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from components.modeling.context.part import ContextPlan
from components.modeling.native.attention import flex, short
from components.modeling.native.attention.flash import WIDEST_HEAD, attend_flash
from components.modeling.native.attention.padded import attend_padded
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.compiled import has_triton

Kernel = Literal["flash", "flex", "short", "padded"]
WORTH_COMPILING = 2048
"""Tokens of a pack from which flex attention is taken."""


def attend(
    qkv: Tensor, plan: AttentionPlan, heads: int, kv_heads: int, window: int | None = None, limit: float | None = None
) -> Tensor:
    """Return the heads' outputs [N, H * C] of rotated, fused projections qkv [N, F].

    A query sees the last `window` tokens, itself included, or all; scores are capped at `limit`, if it is given.
    """
    if window is not None and window >= plan.widest:
        window = None
    kernel = choose(qkv, plan, heads, kv_heads, limit)
    if kernel == "flash":
        divided = plan.divided if isinstance(plan, ContextPlan) else None
        return attend_flash(qkv, plan.calls(window), heads, kv_heads, divided)
    if kernel == "short":
        return short.attend_short(qkv, plan.buckets, heads, kv_heads, window)
    query, both = qkv.unflatten(1, (heads + 2 * kv_heads, -1)).split((heads, 2 * kv_heads), dim=1)

    def attended(query: Tensor, both: Tensor) -> Tensor:
        key, value = (plan.divided.shared(both) if isinstance(plan, ContextPlan) else both).chunk(2, dim=1)
        if kernel == "flex":
            return flex.attend_flex(query, key, value, plan.blocks(window), limit)
        return attend_padded(query, key, value, plan.buckets, window, limit)

    if not isinstance(plan, ContextPlan):
        return attended(query, both)
    return checkpoint(attended, query, both, use_reentrant=False, preserve_rng_state=False)


def choose(qkv: Tensor, plan: AttentionPlan, heads: int, kv_heads: int, limit: float | None) -> Kernel:
    """Return the kernel for projections [N, F] of a pack."""
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    if qkv.device.type == "cpu":
        alone = not isinstance(plan, ContextPlan)
        return "short" if alone and plan.widest <= short.LONGEST and limit is None else "padded"
    if qkv.device.type != "cuda":
        return "padded"
    half = qkv.dtype in (torch.bfloat16, torch.float16)
    if half and limit is None and width % 8 == 0 and width <= WIDEST_HEAD and _has_flash(qkv.device):
        return "flash"
    if plan.num_tokens >= WORTH_COMPILING and qkv.dtype != torch.float64 and width >= 16 and has_triton():
        return "flex" if flex.compiles(qkv.dtype, heads, kv_heads, width, limit) else "padded"
    return "padded"


@functools.cache
def _has_flash(device: torch.device) -> bool:
    """Return whether torch was built with the kernel, and the GPU (Ampere or newer) runs it."""
    return torch.backends.cuda.is_flash_attention_available() and torch.cuda.get_device_capability(device) >= (8, 0)
