"""Attention whose scores are capped by a tanh (Gemma 2), which scaled_dot_product_attention cannot do.

Queries go through in pieces of bounded size that the backward pass computes again, so that long sequences do not keep
their score matrices.

Shapes: N tokens, B segments of a bucket, Q and K its widest query and key counts, H query heads, G key-value heads,
C head width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from components.modeling.packing.ragged import Bucket

MOST_SCORES = 1 << 24
"""Most scores of one piece."""


def attend_capped(
    query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, window: int | None, limit: float
) -> Tensor:
    """Return outputs [B, H, Q, C] for query [B, H, Q, C] and key, value [B, G, K, C] of a bucket."""
    bias = bucket.bias_within(window)
    batch, heads, length, _ = query.shape
    rows = max(1, MOST_SCORES // (batch * heads * key.shape[2]))
    if rows >= length:
        return _piece(query, key, value, bias, limit)
    parts = [
        checkpoint(_piece, part, key, value, seen, limit, use_reentrant=False)
        for part, seen in zip(query.split(rows, dim=2), bias.split(rows, dim=2), strict=True)
    ]
    return torch.cat(parts, dim=2)


def _piece(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, limit: float) -> Tensor:
    batch, heads, length, width = query.shape
    shared = query.reshape(batch, key.shape[1], -1, width)  # [B, G, H / G * Q, C]
    scores = cap((shared @ key.transpose(2, 3)) * width**-0.5, limit)
    scores = scores.view(batch, heads, length, -1) + bias.to(scores.dtype)
    weights = torch.softmax(scores.float() if scores.dtype != torch.float64 else scores, -1).to(query.dtype)
    return (weights.view(batch, key.shape[1], -1, key.shape[2]) @ value).view(batch, heads, length, width)


def cap(scores: Tensor, limit: float) -> Tensor:
    """Return limit * tanh(scores / limit)."""
    return torch.tanh(scores / limit) * limit
