"""SharedPrefixCache: attention of single queries by batched matrix products, on any device and in any precision.

One product multiplies all rows of a prompt with its keys; one softmax covers shared and own keys.

Shapes: P prompts, L widest prompt, R rows, E most rows of any prompt, T own tokens, H query heads, G key-value
heads, C head width, J = H / G.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.modeling.native.decoder import DecoderConfig
from components.modeling.native.row_cache import RowCache, prompt_tokens

_LEAST_KEYS = 16
"""Own keys that are always read (masked if unused): torch multiplies smaller batches in a slow loop."""


@dataclass(frozen=True)
class _Layer:
    """Keys and values of one layer."""

    prompt_keys: Tensor
    """[P * G, L, C]"""
    prompt_values: Tensor
    """[P * G, L, C]"""
    keys: Tensor
    """[R * G, T, C]"""
    values: Tensor
    """[R * G, T, C]"""


class SharedPrefixCache(RowCache):
    """Keys and values in padded blocks, one for each prompt and one for each row."""

    def __init__(self, config: DecoderConfig, lengths: Tensor, prompt_of: Tensor, capacity: int) -> None:
        self.config = config
        self.lengths = lengths
        self.prompt_of = prompt_of
        self.used = 0
        """Own tokens of every row so far."""
        self.capacity = max(capacity, _LEAST_KEYS)
        self.layers: list[_Layer] = []
        self._index_rows()

    def add_prompts(self, projections: Sequence[Tensor]) -> None:
        """Take every layer's rotated queries, keys and values [N, (H + 2G) * C] of the packed prompts."""
        c = self.config
        tokens = prompt_tokens(self.lengths, int(self.lengths.max()))
        own_shape = (self.prompt_of.shape[0] * c.kv_heads, self.capacity, c.head_width)
        for qkv in projections:
            heads = qkv.unflatten(1, (-1, c.head_width))[:, c.heads :]
            shared = heads.index_select(0, tokens.flatten()).unflatten(0, tokens.shape)
            keys, values = (part.flatten(0, 1) for part in shared.transpose(1, 2).split(c.kv_heads, dim=1))
            self.layers.append(_Layer(keys, values, _empty(qkv, own_shape), _empty(qkv, own_shape)))
        at = torch.arange(tokens.shape[1], device=tokens.device)
        bias = torch.zeros(tokens.shape, dtype=projections[0].dtype, device=tokens.device)
        bias.masked_fill_(at >= self.lengths.unsqueeze(1), float("-inf"))
        self.prompt_bias = bias.unsqueeze(1).repeat_interleave(c.kv_heads, dim=0)
        """[P * G, 1, L]"""

    def advance(self) -> None:
        """Make room for one more token of every row."""
        self.used += 1

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Store the new keys and values of qkv [R, (H + 2G) * C]; return the heads' outputs [R, H * C]."""
        cache = self.layers[layer]
        query = self._store(qkv, cache)
        own = query.view(cache.keys.shape[0], -1, query.shape[1])
        width = max(self.used, _LEAST_KEYS)
        own_scores = torch.bmm(own, cache.keys[:, :width].transpose(1, 2)).flatten(0, 1)
        own_scores[:, self.used :] = float("-inf")

        shared = query.index_select(0, self.slots).view(cache.prompt_keys.shape[0], -1, query.shape[1])
        scores = torch.baddbmm(self.prompt_bias, shared, cache.prompt_keys.transpose(1, 2)).flatten(0, 1)
        weights = torch.cat((scores.index_select(0, self.unslots), own_scores), dim=1).softmax(1)
        shared_weights, own_weights = weights.split((scores.shape[1], width), dim=1)

        out = torch.bmm(own_weights.unflatten(0, own.shape[:2]), cache.values[:, :width]).flatten(0, 1)
        shared_weights = shared_weights.index_select(0, self.slots).unflatten(0, shared.shape[:2])
        shared_out = torch.bmm(shared_weights, cache.prompt_values).flatten(0, 1)
        return out.add_(shared_out.index_select(0, self.unslots)).view(qkv.shape[0], -1)

    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows."""
        groups = self.config.kv_heads
        self.prompt_of = self.prompt_of.index_select(0, rows)
        self._index_rows()
        at = (rows.unsqueeze(1) * groups + torch.arange(groups, device=rows.device)).flatten()
        for index, layer in enumerate(self.layers):
            kept = []
            for old in (layer.keys, layer.values):
                new = _empty(old, (at.shape[0], *old.shape[1:]))
                torch.index_select(old[:, : self.used], 0, at, out=new[:, : self.used])
                kept.append(new)
            self.layers[index] = _Layer(layer.prompt_keys, layer.prompt_values, *kept)

    def _store(self, qkv: Tensor, cache: _Layer) -> Tensor:
        """Store the new keys and values; return scaled queries [R * H, C]."""
        c = self.config
        heads = qkv.unflatten(1, (-1, c.head_width))
        query, key, value = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=1)
        by_row = (-1, c.kv_heads, self.capacity, c.head_width)
        cache.keys.view(by_row)[:, :, self.used - 1] = key
        cache.values.view(by_row)[:, :, self.used - 1] = value
        return query.reshape(-1, c.head_width) * c.head_width**-0.5

    def _index_rows(self) -> None:
        """Index query heads by row, [R, G, J], and by prompt, [P, G, E, J] padded with row 0, and back."""
        c = self.config
        device = self.prompt_of.device
        counts = torch.bincount(self.prompt_of, minlength=self.lengths.shape[0])
        rank = torch.arange(self.prompt_of.shape[0], device=device)
        table = torch.zeros(counts.shape[0], int(counts.max()), dtype=torch.long, device=device)
        place = rank - (counts.cumsum(0) - counts).index_select(0, self.prompt_of)
        table[self.prompt_of, place] = rank
        head = torch.arange(c.heads, device=device).view(c.kv_heads, 1, -1)
        slots = table[:, None, :, None] * c.heads + head
        self.slots = slots.flatten()
        unslots = torch.empty(self.prompt_of.shape[0] * c.heads, dtype=torch.long, device=device)
        real = torch.arange(table.shape[1], device=device) < counts.unsqueeze(1)
        by_slot = torch.arange(slots.numel(), device=device).view_as(slots).transpose(1, 2)
        unslots[slots.transpose(1, 2)[real].flatten()] = by_slot[real].flatten()
        self.unslots = unslots


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an uninitialised cache; keys that may be read before they are written are zero."""
    cache = like.new_empty(shape)
    cache[:, :_LEAST_KEYS] = 0
    return cache
