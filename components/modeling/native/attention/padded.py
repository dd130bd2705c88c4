"""Attention of segments padded together in buckets, on any device and in any precision.

Through scaled_dot_product_attention, or through plain products where scores are capped. Masks and capped scores go
in pieces of bounded size that the backward pass computes again: memory grows linearly with the length.

Shapes: N tokens, B segments of a bucket, Q and K its widest query and key counts, H query heads, G key-value heads,
C head width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from components.modeling.native.attention.capped import attend_capped
from components.modeling.packing.ragged import Bucket, RaggedPlan

MOST_SCORES = 1 << 24
"""Most elements of one piece's mask, or of its capped scores."""
LEAST_ROWS = 64
"""Queries that a piece has at least, so that there are not too many of them."""


def attend_padded(
    query: Tensor, key: Tensor, value: Tensor, plan: RaggedPlan, window: int | None, limit: float | None
) -> Tensor:
    """Return outputs [N, H * C] of query [N, H, C] and key, value [N, G, C]."""
    outputs = []
    for bucket in plan.buckets:
        queries = _rows(query, bucket.queries)
        keys, values = (_rows(tensor, bucket.keys) for tensor in (key, value))
        outputs.append(_in_pieces(queries, keys, values, bucket, window, limit).transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs).index_select(0, plan.back).flatten(1)


def _rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Return [B, heads, width of index, C] of tensor [N, heads, C]."""
    return tensor.index_select(0, index.flatten()).unflatten(0, index.shape).transpose(1, 2)


def _in_pieces(
    query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, window: int | None, limit: float | None
) -> Tensor:
    """Return outputs [B, H, Q, C] for query [B, H, Q, C] and key, value [B, G, K, C]."""
    batch, heads, length, _ = query.shape
    if limit is None and window is None and bucket.prefixes == (0, 0):
        return _scaled(query, key, value, None)
    rows = max(LEAST_ROWS, MOST_SCORES // (batch * key.shape[2] * (1 if limit is None else heads)))
    if rows >= length:
        return _piece(query, key, value, bucket.bias(window), limit)
    parts = []
    for start in range(0, length, rows):
        own = slice(start, min(start + rows, length))
        seen = bucket.keys_seen(own, window)

        def piece(query: Tensor, key: Tensor, value: Tensor, own: slice = own, seen: slice = seen) -> Tensor:
            return _piece(query, key, value, bucket.bias_of(own, seen, window), limit)

        given = query[:, :, own], key[:, :, seen], value[:, :, seen]
        parts.append(checkpoint(piece, *given, use_reentrant=False, preserve_rng_state=False))
    return torch.cat(parts, dim=2)


def _piece(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, limit: float | None) -> Tensor:
    return _scaled(query, key, value, bias) if limit is None else attend_capped(query, key, value, bias, limit)


def _scaled(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    if query.device.type == "cuda" and (bias is not None or query.dtype == torch.float32):
        key, value = (every_head(tensor, query.shape[1]) for tensor in (key, value))
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if bias is None else bias.to(query.dtype),
        is_causal=bias is None,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def every_head(tensor: Tensor, heads: int) -> Tensor:
    """Return keys or values [B, H, K, C] of [B, G, K, C], each head copied for every query head that shares it.

    CUDA's flash attention takes shared heads but neither masks nor float32, its memory-efficient attention the reverse;
    for shared heads with a mask or float32 only the math kernel is left, which keeps a matrix [B, H, Q, K].
    """
    return tensor.repeat_interleave(heads // tensor.shape[1], dim=1)
