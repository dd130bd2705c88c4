"""Attention of short segments on a CPU: batched matrix products with their own backward pass.

At 10 to 100 tokens they cost half of scaled_dot_product_attention. The attention matrices are kept.

Shapes: N tokens, B segments of a bucket, Q and K its widest query and key counts, H query heads, G key-value
heads, C head width, F = (H + 2G) C features of fused queries, keys and values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from components.modeling.packing.ragged import Bucket, HeadPlan, RaggedPlan

LONGEST = 256
"""Most keys of a segment for which the attention matrix is kept for the backward pass."""


def attend_short(qkv: Tensor, plan: RaggedPlan, heads: int, kv_heads: int, window: int | None) -> Tensor:
    """Return the heads' outputs [N, H * C] of qkv [N, F]."""
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    return _ShortAttention.apply(qkv, plan.heads(heads, kv_heads), plan.buckets, width, window)


class _ShortAttention(torch.autograd.Function):
    """Attention by batched matrix products, all heads of all buckets gathered at once.

    Rows of width C are the unit: qkv is [N * (H + 2G), C], and one index_select each way moves between it and
    the padded, head-major blocks [B, H, Q, C] and [B, G, K, C] of the buckets.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, rows: HeadPlan, buckets: tuple[Bucket, ...], width: int, window: int | None
    ) -> Tensor:
        padded = qkv.view(-1, width).index_select(0, rows.gather)
        outputs = padded.new_empty(rows.num_queries, width)
        weights = []
        for bucket, block in zip(buckets, rows.blocks, strict=True):
            query, key, value = block.split(padded)
            bias = bucket.bias(window).to(qkv.dtype).repeat(1, rows.heads, 1, 1)
            scores = bias.view(block.batch, -1, key.shape[1])
            torch.baddbmm(scores, query, key.transpose(1, 2), alpha=width**-0.5, out=scores)
            weight = torch.softmax(scores, -1)
            if not bucket.is_full:
                # Padded queries must send no gradient into keys and values.
                weight.view_as(bias).mul_(bucket.is_query[:, None, :, None])
            torch.bmm(weight, value, out=block.query(outputs))
            weights.append(weight)
        ctx.save_for_backward(padded, *weights)
        ctx.rows, ctx.width = rows, width
        return outputs.index_select(0, rows.back_out).view(qkv.shape[0], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        padded, *weights = ctx.saved_tensors
        rows, width = ctx.rows, ctx.width
        scale = width**-0.5
        grad_outputs = grads[0].reshape(-1, width).index_select(0, rows.gather_out)
        grad_padded = torch.empty_like(padded)
        for block, weight in zip(rows.blocks, weights, strict=True):
            query, key, value = block.split(padded)
            grad_query, grad_key, grad_value = block.split(grad_padded)
            grad = block.query(grad_outputs)
            torch.bmm(weight.transpose(1, 2), grad, out=grad_value)
            grad_weight = torch.bmm(grad, value.transpose(1, 2))
            grad_scores = torch._softmax_backward_data(grad_weight, weight, -1, weight.dtype)
            torch.baddbmm(grad_query, grad_scores, key, beta=0, alpha=scale, out=grad_query)
            torch.baddbmm(grad_key, grad_scores.transpose(1, 2), query, beta=0, alpha=scale, out=grad_key)
        grad_qkv = grad_padded.index_select(0, rows.back)
        if rows.prefix_rows.numel():
            grad_qkv.index_add_(0, rows.prefix_rows, grad_padded.index_select(0, rows.prefix_slots))
        return grad_qkv.view(grads[0].shape[0], -1), None, None, None, None
