"""Attention by torch's flex kernel, compiled by Triton: for what the flash kernel does not take, float32 and caps.

Shapes: N tokens, H query heads, G key-value heads, C head width.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.ragged import Segment

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def attend_flex(
    query: Tensor, key: Tensor, value: Tensor, blocks: BlockMask, limit: float | None, *, compiled: bool = True
) -> Tensor:
    """Return outputs [N, H * C] of query [N, H, C] and key, value [N, G, C].

    Without `compiled` the kernel is plain torch that holds all scores: a reference, forward alone on a CPU.
    """
    from torch.nn.attention.flex_attention import flex_attention

    kernel = _compiled() if compiled else flex_attention
    batched = (tensor.transpose(0, 1).unsqueeze(0) for tensor in (query, key, value))
    out: Tensor = kernel(
        *batched,
        score_mod=None if limit is None else _capped(limit),
        block_mask=blocks,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out.squeeze(0).transpose(0, 1).flatten(1)


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


@functools.cache
def _capped(limit: float) -> Callable[..., Tensor]:
    def capped(score: Tensor, *_: Any) -> Tensor:
        return torch.tanh(score / limit) * limit

    return capped


@functools.cache
def compiles(dtype: torch.dtype, heads: int, kv_heads: int, width: int, limit: float | None) -> bool:
    """Return whether the kernel compiles for such heads on this GPU; if it does not, say so once.

    Both passes are tried on a small pack, because a backward pass that does not compile shows too late.
    """
    device = torch.device("cuda")
    shapes = ((300, heads, width), (300, kv_heads, width), (300, kv_heads, width))
    plan = AttentionPlan((Segment(0, 100), Segment(100, 200, 0, 100)), device)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            inputs = [torch.zeros(shape, dtype=dtype, device=device, requires_grad=True) for shape in shapes]
            attend_flex(*inputs, plan.blocks(None), limit).sum().backward()
    except Exception as error:  # whatever a compiler and its toolchain raise
        reason = str(error).strip().splitlines()[:1]
        warnings.warn(
            f"flex attention does not compile here ({type(error).__name__}: {''.join(reason)}); "
            "attention takes padded buckets, which are slower",
            stacklevel=2,
        )
        return False
    return True
