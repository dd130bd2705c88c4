"""What the flash kernel computes, sequence by sequence in plain torch: a reference for what is prepared for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from components.modeling.packing.varlen import VarlenCall


def _sequences(call: VarlenCall) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield each sequence's queries, keys and hidden pairs [Q, K], by the kernel's documented rules."""
    starts = call.query_starts.tolist(), call.key_starts.tolist()
    for (q, q_end), (k, k_end) in zip(*map(pairwise, starts), strict=True):
        assert q_end - q <= call.most_queries
        assert k_end - k <= call.most_keys
        at = torch.arange(q_end - q).unsqueeze(1) + (k_end - k) - (q_end - q)  # aligned at the last query and key
        key = torch.arange(k_end - k)
        hidden = key > at if call.causal else torch.zeros(q_end - q, k_end - k, dtype=torch.bool)
        if call.left >= 0:
            hidden = hidden | (key < at - call.left)
        yield slice(q, q_end), slice(k, k_end), hidden


def _heads(query: Tensor, key: Tensor) -> Tensor:
    """Return keys or values [H, K, C] of [K, G, C]."""
    return key.repeat_interleave(query.shape[1] // key.shape[1], dim=1).transpose(0, 1)


def forward(query: Tensor, key: Tensor, value: Tensor, call: VarlenCall) -> tuple[Tensor, Tensor]:
    """Return outputs [R, H, C] and log-sum-exps [H, R]."""
    out, weight = torch.full_like(query, torch.nan), query.new_full(query.shape[1::-1], torch.nan)
    for q, k, hidden in _sequences(call):
        scores = query[q].transpose(0, 1) @ _heads(query, key[k]).transpose(1, 2) * query.shape[2] ** -0.5
        scores = scores.masked_fill(hidden, float("-inf"))
        weight[:, q] = scores.logsumexp(-1)
        out[q] = (scores.softmax(-1) @ _heads(query, value[k])).transpose(0, 1)
    return out, weight


def backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, weight: Tensor, call: VarlenCall
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients as the kernel computes them: from the outputs and log-sum-exps that it is given."""
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    inner = (grad * out).sum(-1).t()  # [H, R]
    for q, k, hidden in _sequences(call):
        keys, values = _heads(query, key[k]), _heads(query, value[k])
        scores = query[q].transpose(0, 1) @ keys.transpose(1, 2) * query.shape[2] ** -0.5
        chance = (scores - weight[:, q].unsqueeze(-1)).exp().masked_fill(hidden, 0.0)
        above = grad[q].transpose(0, 1)
        grad_scores = chance * (above @ values.transpose(1, 2) - inner[:, q].unsqueeze(-1)) * query.shape[2] ** -0.5
        grads[0][q] = (grad_scores @ keys).transpose(0, 1)
        shared = (key.shape[1], -1, *keys.shape[1:])
        grads[1][k] = (grad_scores.transpose(1, 2) @ query[q].transpose(0, 1)).view(shared).sum(1).transpose(0, 1)
        grads[2][k] = (chance.transpose(1, 2) @ above).view(shared).sum(1).transpose(0, 1)
    return grads
