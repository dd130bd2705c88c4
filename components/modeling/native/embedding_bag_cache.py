"""EmbeddingBagCache: attention of single queries by weighted sums of table rows, for float32 on the CPU.

One query per row leaves matrix products nothing to reuse: a batch of vector-matrix products costs one BLAS call for
each row and head, most of it overhead, and reads keys in pieces too short to prefetch. A bag of an embedding table
is a weighted sum of listed rows; torch computes it in one vectorised pass that prefetches. Both
halves of attention are bags. The output of a head sums its values, weighted by the softmax. Its scores are a sum over
features c of query[c] times a table row that holds key[c] of _BLOCK tokens, which is why keys are stored transposed.
Rows of one prompt list the same table rows, so prompts are stored once.

Own tokens fill blocks from the back, and the newest block comes first: the columns in use are then one slice, own
tokens (newest first) before the prompt's; columns outside it may hold anything.

Shapes: P prompts, L widest prompt in blocks, R rows, H query heads, G key-value heads, C head width, B own blocks in
use, K = B + L blocks, W columns in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.modeling.native.allocator import back_with_huge_pages
from components.modeling.native.attention.capped import cap
from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.row_cache import RowCache, biting, prompt_tokens, window_bias

_BLOCK = 16
"""Tokens of a block: 16 keys of one feature are one cache line and one AVX-512 register."""
MOST_PROMPT = 256
"""Widest prompt, in tokens. Beyond it one product of all rows of a prompt with its keys is faster: measured from
somewhere between 128 and 512 tokens with groups of 64, and not yet at 512 with groups of 8."""


@dataclass(frozen=True)
class _Tables:
    """One layer: blocks of all prompts, [P, G, L], then of all rows, [capacity, R, G]."""

    keys: Tensor
    """[blocks * C, _BLOCK]"""
    values: Tensor
    """[blocks * _BLOCK, C]"""
    own_keys: Tensor
    """[capacity, R, G, C, _BLOCK], a view"""
    own_values: Tensor
    """[capacity, R, G, _BLOCK, C], a view"""


class EmbeddingBagCache(RowCache):
    """Keys and values in tables whose rows are summed."""

    def __init__(self, config: DecoderConfig, lengths: Tensor, prompt_of: Tensor, capacity: int) -> None:
        self.config = config
        self.lengths = lengths
        self.prompt_of = prompt_of
        self.longest = int(lengths.max())
        self.ragged = int(lengths.min()) < self.longest
        self.prompt_blocks = -(-self.longest // _BLOCK)
        self.own_blocks = -(-capacity // _BLOCK)
        self.first_own = lengths.shape[0] * config.kv_heads * self.prompt_blocks
        self.scale = config.head_width**-0.5
        self.used = 0
        """Own tokens of every row so far."""
        self.layers: list[_Tables] = []
        self.hidden: dict[int | None, Tensor] = {}
        """[R * H, W] by window: -inf at columns that it hides now."""

    @staticmethod
    def serves(weight: Tensor, longest: int) -> bool:
        """Return whether bags are faster for weights like this and a longest prompt of `longest` tokens."""
        return weight.dtype == torch.float32 and weight.device.type == "cpu" and longest <= MOST_PROMPT

    def add_prompts(self, projections: Sequence[Tensor]) -> None:
        """Take every layer's rotated queries, keys and values [N, (H + 2G) * C] of the packed prompts."""
        c = self.config
        tokens = prompt_tokens(self.lengths, self.prompt_blocks * _BLOCK)
        by_block = (self.lengths.shape[0], self.prompt_blocks, _BLOCK, 2 * c.kv_heads, c.head_width)
        for qkv in projections:
            heads = qkv.unflatten(1, (-1, c.head_width))[:, c.heads :]
            keys, values = heads.index_select(0, tokens.flatten()).view(by_block).split(c.kv_heads, dim=3)
            keys, values = keys.permute(0, 3, 1, 4, 2), values.permute(0, 3, 1, 2, 4)
            self.layers.append(self._tables(keys.reshape(-1, _BLOCK), values.reshape(-1, c.head_width)))

    def advance(self) -> None:
        """Make room for one more token of every row."""
        self.used += 1
        if self.used % _BLOCK == 1:
            self._list_rows()
        place = -self.used % _BLOCK
        self.places = [(keys.select(3, place), values.select(2, place)) for keys, values in self.newest]
        width = self.used + self.longest
        self.columns = slice(place, place + width)
        self.value_rows = self.value_table[:, self.columns].flatten()
        self.value_bags = torch.arange(0, self.value_rows.shape[0], width, dtype=torch.int32)
        self._hide(width)

    def _hide(self, width: int) -> None:
        """Find what windows hide from the token that is to come."""
        for window in biting(self.config.windows, width):
            lengths, ages = self.lengths.index_select(0, self.prompt_of), torch.arange(self.used)
            bias = torch.cat(window_bias(window, ages, lengths, self.longest), dim=1)
            self.hidden[window] = bias.repeat_interleave(self.config.heads, dim=0)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Store the new keys and values of qkv [R, (H + 2G) * C]; return the heads' outputs [R, H * C]."""
        c = self.config
        tables, (key_place, value_place) = self.layers[layer], self.places[layer]
        heads = qkv.view(-1, c.heads + 2 * c.kv_heads, c.head_width)
        key_place.copy_(heads.narrow(1, c.heads, c.kv_heads))
        value_place.copy_(heads.narrow(1, c.heads + c.kv_heads, c.kv_heads))

        query = qkv.view(-1, c.head_width).index_select(0, self.query_rows).view(-1)
        scores = _bag(tables.keys, self.key_rows, self.key_bags, query).view_as(self.value_table)
        scores = scores[:, self.columns] * self.scale
        if c.attention_cap is not None:
            scores = cap(scores, c.attention_cap)
        if self.ragged:
            scores[:, self.used :] += self.prompt_bias
        if self.hidden and (bias := self.hidden.get(c.window(layer))) is not None:
            scores += bias
        weights = scores.softmax(1).view(-1)
        return _bag(tables.values, self.value_rows, self.value_bags, weights).view(qkv.shape[0], -1)

    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows."""
        c = self.config
        self.prompt_of = self.prompt_of.index_select(0, rows)
        used = -(-self.used // _BLOCK)
        for index, old in enumerate(self.layers):
            new = self._tables(old.keys[: self.first_own * c.head_width], old.values[: self.first_own * _BLOCK])
            torch.index_select(old.own_keys[:used], 1, rows, out=new.own_keys[:used])
            torch.index_select(old.own_values[:used], 1, rows, out=new.own_values[:used])
            self.layers[index] = new
        if self.used:
            self._list_rows()

    def _tables(self, prompt_keys: Tensor, prompt_values: Tensor) -> _Tables:
        """Return tables that begin with the prompts' rows; own blocks are left uninitialised."""
        c, first = self.config, self.first_own
        own = (self.own_blocks, self.prompt_of.shape[0], c.kv_heads)
        blocks = first + own[0] * own[1] * own[2]
        keys = prompt_keys.new_empty(blocks * c.head_width, _BLOCK)
        values = prompt_values.new_empty(blocks * _BLOCK, c.head_width)
        back_with_huge_pages(keys, values)
        keys[: first * c.head_width] = prompt_keys
        values[: first * _BLOCK] = prompt_values
        own_keys = keys[first * c.head_width :].view(*own, c.head_width, _BLOCK)
        own_values = values[first * _BLOCK :].view(*own, _BLOCK, c.head_width)
        return _Tables(keys, values, own_keys, own_values)

    def _list_rows(self) -> None:
        """List the table rows of every row and head: blocks [R, H, K], the newest own block first."""
        c = self.config
        rows, used = self.prompt_of.shape[0], -(-self.used // _BLOCK)
        group = _range(c.heads) // (c.heads // c.kv_heads)
        own = self.first_own + _range(rows).unsqueeze(1) * c.kv_heads + group
        own = own.unsqueeze(2) + _range(used).flip(0) * (rows * c.kv_heads)
        shared = (self.prompt_of.int().unsqueeze(1) * c.kv_heads + group) * self.prompt_blocks
        blocks = torch.cat((own, shared.unsqueeze(2) + _range(self.prompt_blocks)), dim=2)
        self.key_rows = (blocks.unsqueeze(3) * c.head_width + _range(c.head_width)).flatten()
        self.key_bags = _range(blocks.numel()) * c.head_width
        self.value_table = (blocks.unsqueeze(3) * _BLOCK + _range(_BLOCK)).view(rows * c.heads, -1)
        """[R * H, K * _BLOCK]"""
        query = _range(rows).unsqueeze(1) * (c.heads + 2 * c.kv_heads) + _range(c.heads)
        self.query_rows = query.flatten().repeat_interleave(blocks.shape[2])
        if self.ragged:
            padding = torch.arange(self.longest) >= self.lengths.index_select(0, self.prompt_of).unsqueeze(1)
            bias = torch.zeros(padding.shape).masked_fill_(padding, float("-inf"))
            self.prompt_bias = bias.repeat_interleave(c.heads, dim=0)
        self.newest = [(layer.own_keys[used - 1], layer.own_values[used - 1]) for layer in self.layers]
        """The block that each layer is filling, [R, G, C, _BLOCK] and [R, G, _BLOCK, C]."""


def _range(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.int32)


def _bag(table: Tensor, rows: Tensor, bags: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sums of table [.., F] over the rows of each bag, [bags, F]."""
    return torch.embedding_bag(table, rows, bags, False, 0, False, weights)[0]
