"""NativeSession: token-by-token decoding on the native decoder.

Every prompt is encoded once; its keys and values are kept once and shared by all its rows, which keep only
their own (cascade attention: one softmax over shared and own keys).

Shapes: P prompts, L widest prompt, R rows, E most rows of any prompt, T new tokens, H query heads, G key-value
heads, C head width, J = H / G.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.modeling.decoder import Decoder
from components.modeling.generate import Session
from components.modeling.ops import linear, rms_norm
from components.modeling.packed import Packed

_LEAST_KEYS = 16
"""Own keys that are always read (masked if unused): torch multiplies still smaller batches in a slow loop."""


@dataclass(frozen=True)
class _Cache:
    """Keys and values of one layer."""

    prompt_keys: Tensor
    """[P * G, L, C]"""
    prompt_values: Tensor
    """[P * G, L, C]"""
    keys: Tensor
    """[R * G, T, C]"""
    values: Tensor
    """[R * G, T, C]"""


class NativeSession(Session):
    """Rows of one chunk, in order of their prompts."""

    def __init__(
        self, decoder: Decoder, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int
    ) -> None:
        self.decoder = decoder
        self.prompts = prompts
        device = decoder.embedding.device
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self.prompt_of = torch.repeat_interleave(torch.tensor(counts, device=device))
        self.used = 0
        """Own tokens of every row so far."""
        # The last token is emitted, never read.
        self.capacity = max(max_new_tokens - 1, _LEAST_KEYS)
        self.caches: list[_Cache] = []
        padding = torch.arange(int(self.lengths.max()), device=device) >= self.lengths.unsqueeze(1)
        bias = torch.zeros(padding.shape, dtype=decoder.embedding.dtype, device=device)
        bias = bias.masked_fill_(padding, float("-inf")).unsqueeze(1)
        self.prompt_bias = bias.repeat_interleave(decoder.config.kv_heads, dim=0)
        """[P * G, 1, L]"""
        self.turns = decoder.turn_table(padding.shape[1] + max_new_tokens)
        self._index_rows()

    def start(self) -> Tensor:
        """Encode the prompts; return logits [R, V] of every row's first response token."""
        c = self.decoder.config
        packed = Packed.from_sequences(self.prompts, self.lengths.device, keep_last=True)
        projections: list[Tensor] = []
        hidden = self.decoder(packed, packed.last, projections=projections)
        step = torch.arange(self.prompt_bias.shape[2], device=self.lengths.device)
        starts = self.lengths.cumsum(0) - self.lengths
        tokens = starts.unsqueeze(1) + step.minimum(self.lengths.unsqueeze(1) - 1)
        own_shape = (self.prompt_of.shape[0] * c.kv_heads, self.capacity, c.head_width)
        for qkv in projections:
            heads = qkv.unflatten(1, (-1, c.head_width))[:, c.heads :]
            shared = heads.index_select(0, tokens.flatten()).unflatten(0, tokens.shape)
            keys, values = (part.flatten(0, 1) for part in shared.transpose(1, 2).split(c.kv_heads, dim=1))
            self.caches.append(_Cache(keys, values, _empty(qkv, own_shape), _empty(qkv, own_shape)))
        logits = linear(hidden, self.decoder.output_weight)
        return logits.index_select(0, self.prompt_of)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens [R]; return logits [R, V] of the next ones."""
        decoder = self.decoder
        x = decoder.embedding.index_select(0, tokens)
        positions = self.lengths.index_select(0, self.prompt_of) + self.used
        turns = self.turns.index_select(0, positions).unsqueeze(1)
        self.used += 1
        for layer, cache in zip(decoder.layers, self.caches, strict=True):
            x = layer.finish(x, self._attend(layer.project(x, turns), cache))
        x = rms_norm(x, decoder.norm, decoder.config.norm_eps)
        return linear(x, decoder.output_weight)

    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows."""
        groups = self.decoder.config.kv_heads
        self.prompt_of = self.prompt_of.index_select(0, rows)
        self._index_rows()
        at = (rows.unsqueeze(1) * groups + torch.arange(groups, device=rows.device)).flatten()
        for index, cache in enumerate(self.caches):
            kept = []
            for old in (cache.keys, cache.values):
                new = _empty(old, (at.shape[0], *old.shape[1:]))
                torch.index_select(old[:, : self.used], 0, at, out=new[:, : self.used])
                kept.append(new)
            self.caches[index] = _Cache(cache.prompt_keys, cache.prompt_values, *kept)

    def _attend(self, qkv: Tensor, cache: _Cache) -> Tensor:
        """Store the new keys and values of qkv [R, (H + 2G) * C]; return the heads' outputs [R, H * C]."""
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

    def _store(self, qkv: Tensor, cache: _Cache) -> Tensor:
        """Store the new keys and values; return scaled queries [R * H, C]."""
        c = self.decoder.config
        heads = qkv.unflatten(1, (-1, c.head_width))
        query, key, value = heads.split((c.heads, c.kv_heads, c.kv_heads), dim=1)
        by_row = (-1, c.kv_heads, self.capacity, c.head_width)
        cache.keys.view(by_row)[:, :, self.used - 1] = key
        cache.values.view(by_row)[:, :, self.used - 1] = value
        return query.reshape(-1, c.head_width) * c.head_width**-0.5

    def _index_rows(self) -> None:
        """Index query heads by row, [R, G, J], and by prompt, [P, G, E, J] padded with row 0, and back."""
        c = self.decoder.config
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
