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

from components.modeling.native.attention.capped import cap
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.row_cache import RowCache, biting, prompt_tokens, window_bias

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
        self.hidden: dict[int | None, Tensor] = {}
        """[R * H, L + own] by window: -inf at keys that it hides now."""
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
        longest = self.prompt_bias.shape[2]
        for window in biting(self.config.windows, self.used + longest):
            ages = torch.arange(self.used, device=self.lengths.device).flip(0)
            own, prompt = window_bias(window, ages, self.lengths.index_select(0, self.prompt_of), longest)
            bias = torch.cat((prompt, own), dim=1).to(self.prompt_bias.dtype)
            self.hidden[window] = bias.repeat_interleave(self.config.heads, dim=0)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Store the new keys and values of qkv [R, (H + 2G) * C]; return the heads' outputs [R, H * C]."""
        cache = self.layers[layer]
        query = self._store(qkv, cache)
        own = query.view(cache.keys.shape[0], -1, query.shape[1])
        width = max(self.used, _LEAST_KEYS)
        own_scores = self._capped(torch.bmm(own, cache.keys[:, :width].transpose(1, 2)).flatten(0, 1))
        own_scores[:, self.used :] = float("-inf")

        shared = query.index_select(0, self.slots).view(cache.prompt_keys.shape[0], -1, query.shape[1])
        scores = self._prompt_scores(shared, cache.prompt_keys.transpose(1, 2)).flatten(0, 1)
        both = torch.cat((scores.index_select(0, self.unslots), own_scores), dim=1)
        if self.hidden and (bias := self.hidden.get(self.config.window(layer))) is not None:
            both[:, : bias.shape[1]] += bias
        weights = both.softmax(1)
        shared_weights, own_weights = weights.split((scores.shape[1], width), dim=1)

        out = torch.bmm(own_weights.unflatten(0, own.shape[:2]), cache.values[:, :width]).flatten(0, 1)
        shared_weights = shared_weights.index_select(0, self.slots).unflatten(0, shared.shape[:2])
        shared_out = torch.bmm(shared_weights, cache.prompt_values).flatten(0, 1)
        return out.add_(shared_out.index_select(0, self.unslots)).view(qkv.shape[0], -1)

    def _prompt_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        if self.config.attention_cap is None:
            return torch.baddbmm(self.prompt_bias, query, keys)
        return self._capped(torch.bmm(query, keys)) + self.prompt_bias

    def _capped(self, scores: Tensor) -> Tensor:
        limit = self.config.attention_cap
        return scores if limit is None else cap(scores, limit)

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
