"""Attention whose scores are capped by a tanh (Gemma 2), which scaled_dot_product_attention cannot do.

Shapes: B segments, Q queries, K keys, H query heads, G key-value heads, C head width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attend_capped(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, limit: float) -> Tensor:
    """Return outputs [B, H, Q, C] for query [B, H, Q, C], key, value [B, G, K, C] and bias [B, 1, Q, K]."""
    batch, heads, length, width = query.shape
    shared = query.reshape(batch, key.shape[1], -1, width)  # [B, G, H / G * Q, C]
    scores = cap((shared @ key.transpose(2, 3)) * width**-0.5, limit)
    scores = scores.view(batch, heads, length, -1) + bias.to(scores.dtype)
    weights = torch.softmax(scores.float() if scores.dtype != torch.float64 else scores, -1).to(query.dtype)
    return (weights.view(batch, key.shape[1], -1, key.shape[2]) @ value).view(batch, heads, length, width)


def cap(scores: Tensor, limit: float) -> Tensor:
    """Return limit * tanh(scores / limit)."""
    return torch.tanh(scores / limit) * limit
