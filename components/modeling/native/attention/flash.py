"""Attention by the flash kernel for sequences of any length, in half precision on CUDA.

torch.nn.attention.varlen wraps the same kernel, but its backward pass drops the gradient of the log-sum-exp, which
a merge of several calls needs. Here the kernel's backward pass is given the merged output and log-sum-exp: the softmax
over all keys follows from them, so each call returns its keys' part of the exact gradient (as in ring attention: Liu
et al. 2023, arXiv:2310.01889). Shared heads of keys and values are never copied.

Shapes: N tokens, H query heads, G key-value heads, C head width, F = (H + 2G) C, R queries and T keys of one call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from components.modeling.context.divided_rows import DividedRows
from components.modeling.packing.varlen import VarlenCall

WIDEST_HEAD = 256


def attend_flash(
    qkv: Tensor, calls: tuple[VarlenCall, ...], heads: int, kv_heads: int, divided: DividedRows | None = None
) -> Tensor:
    """Return the heads' outputs [N, H * C] of rotated, fused projections qkv [N, F].

    Where a pack is `divided` over ranks, keys and values are those of all of them. They are gathered in each pass, and
    not kept: a rank keeps its own.
    """
    return _Flash.apply(qkv, calls, heads, kv_heads, divided)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        calls: tuple[VarlenCall, ...],
        heads: int,
        kv_heads: int,
        divided: DividedRows | None,
    ) -> Tensor:
        query, key, value = _split(qkv, heads, kv_heads, divided)
        first, *others = calls
        out, weight = kernel_forward(query, _pick(key, first.keys), _pick(value, first.keys), first)
        for call in others:
            found = kernel_forward(_pick(query, call.queries), _pick(key, call.keys), _pick(value, call.keys), call)
            _merge(out, weight, *found, call.queries)
        ctx.save_for_backward(qkv, out, weight)
        ctx.calls, ctx.heads, ctx.divided = calls, (heads, kv_heads), divided
        return out.flatten(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        qkv, out, weight = ctx.saved_tensors
        query, key, value = _split(qkv, *ctx.heads, ctx.divided)
        grad = grads[0].reshape(out.shape)
        totals: list[Tensor] = []
        for call in ctx.calls:
            rows = call.queries
            parts = kernel_backward(
                _pick(grad, rows),
                _pick(query, rows),
                _pick(key, call.keys),
                _pick(value, call.keys),
                _pick(out, rows),
                weight if rows is None else weight.index_select(1, rows),
                call,
            )
            indices = (rows, call.keys, call.keys)
            if not totals:
                totals = [_whole(*given) for given in zip(parts, indices, (query, key, value), strict=True)]
            else:
                for total, part, index in zip(totals, parts, indices, strict=True):
                    total.index_add_(0, index, part)
        if ctx.divided is not None:
            totals[1:] = [ctx.divided.sum(torch.cat(totals[1:], dim=1), len(qkv))]
        return torch.cat(totals, dim=1).flatten(1), None, None, None, None


def _split(qkv: Tensor, heads: int, kv_heads: int, divided: DividedRows | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [N, H, C], keys and values [N, G, C], or those of all ranks' tokens."""
    query, both = qkv.unflatten(1, (heads + 2 * kv_heads, -1)).split((heads, 2 * kv_heads), dim=1)
    key, value = (both if divided is None else divided.gather(both)).chunk(2, dim=1)
    return query, key, value


def _pick(tensor: Tensor, rows: Tensor | None) -> Tensor:
    return tensor if rows is None else tensor.index_select(0, rows)


def _whole(part: Tensor, rows: Tensor | None, like: Tensor) -> Tensor:
    """Return the gradient [N, heads, C] of all rows; copies of a row are summed in at least float32."""
    if rows is None:
        return part
    total = part.new_zeros(like.shape, dtype=torch.promote_types(part.dtype, torch.float32))
    return total.index_add_(0, rows, part.to(total.dtype)).to(part.dtype)


def _merge(out: Tensor, weight: Tensor, other: Tensor, other_weight: Tensor, rows: Tensor | None) -> None:
    """Merge a call's outputs [R, H, C] and log-sum-exps [H, R] into those of all tokens, in place."""
    assert rows is not None
    mine, before = weight.index_select(1, rows), out.index_select(0, rows)
    both = torch.logaddexp(mine, other_weight)
    share = (other_weight - both).exp().t().unsqueeze(-1)  # [R, H, 1]
    mixed = torch.lerp(before.to(share.dtype), other.to(share.dtype), share)
    out.index_copy_(0, rows, mixed.to(out.dtype))
    weight.index_copy_(1, rows, both)


def kernel_forward(query: Tensor, key: Tensor, value: Tensor, call: VarlenCall) -> tuple[Tensor, Tensor]:
    """Return outputs [R, H, C] and log-sum-exps [H, R] of query [R, H, C] and key, value [T, G, C]."""
    out, weight, *_ = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        call.query_starts,
        call.key_starts,
        call.most_queries,
        call.most_keys,
        0.0,
        call.causal and call.left < 0,
        False,
        window_size_left=call.left,
        window_size_right=0 if call.causal else -1,
    )
    return out, weight


def kernel_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, weight: Tensor, call: VarlenCall
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value, given the final outputs [R, H, C] and log-sum-exps [H, R]."""
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._flash_attention_backward(
        grad,
        query,
        key,
        value,
        out,
        weight,
        call.query_starts,
        call.key_starts,
        call.most_queries,
        call.most_keys,
        0.0,
        call.causal and call.left < 0,
        torch.zeros(2, dtype=torch.uint64, device=query.device),  # the state of a dropout that there is not
        torch.empty(0, device=query.device),
        window_size_left=call.left,
        window_size_right=0 if call.causal else -1,
    )
    return found
