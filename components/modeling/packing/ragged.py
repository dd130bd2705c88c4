"""Plans of ragged attention: how tokens of a pack are gathered into padded buckets, and back.

Shapes: N tokens, B segments of a bucket, Q and K its widest query and key counts, H query heads, G key-value
heads, C head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from components.modeling.packing.placing import placed


class Segment(NamedTuple):
    """Tokens [start, start + length) that attend causally to each other, and to all of the prefix range.

    A part of a longer run of tokens attends to those `before` it, too, which come after the prefix. Segments give the
    indices of keys; queries lie end to end in the order of `start`, which is the same where segments cover the keys.
    """

    start: int
    length: int
    prefix_start: int = 0
    prefix_length: int = 0
    before: int = 0

    @property
    def whole(self) -> int:
        """Return how many keys all of its tokens see."""
        return self.prefix_length + self.before

    @property
    def keys(self) -> int:
        """Return how many keys its last token sees."""
        return self.whole + self.length


def rows_of(segments: Sequence[Segment]) -> dict[Segment, int]:
    """Return the index of each segment's first query."""
    ordered = sorted(segments)
    firsts = accumulate((segment.length for segment in ordered), initial=0)
    return dict(zip(ordered, firsts, strict=False))


@dataclass(frozen=True)
class Bucket:
    """Segments of similar length, padded at their end to the widest of them."""

    queries: Tensor
    """[B, Q] token index of every query; padding repeats the segment's last token."""
    keys: Tensor
    """[B, K] token index of every key, prefix before own tokens; padding repeats the last."""
    lengths: Tensor
    """[B, 1] own tokens of each segment."""
    prefix_lengths: Tensor
    """[B, 1] tokens of each segment's prefix, and those before it that it is a part with."""
    real: Tensor
    """[n] places of the queries that are no padding, in the flattened [B * Q]."""
    prefixes: tuple[int, int]
    """The shortest and the longest prefix; (0, 0): a plain causal mask is right for all real queries."""
    shortest: int
    """Own tokens of the shortest segment."""
    _by_window: dict[int | None, Tensor] = field(default_factory=dict, compare=False)

    def to(self, device: torch.device) -> Bucket:
        """Return the bucket with its index tensors on a device."""
        tensors = ("queries", "keys", "lengths", "prefix_lengths", "real")
        return replace(self, **{name: placed(getattr(self, name), device) for name in tensors}, _by_window={})

    @property
    def is_full(self) -> bool:
        """Whether no query is padding."""
        return self.shortest == self.queries.shape[1]

    @cached_property
    def is_query(self) -> Tensor:
        """[B, Q] False at padding."""
        return self._steps(self.queries) < self.lengths

    @cached_property
    def is_prefix(self) -> Tensor:
        """[B, K] True at tokens of a shared prefix."""
        return self._steps(self.keys) < self.prefix_lengths

    @cached_property
    def is_own(self) -> Tensor:
        """[B, K] True at the segment's own tokens."""
        return ~self.is_prefix & (self._steps(self.keys) < self.prefix_lengths + self.lengths)

    def bias(self, window: int | None) -> Tensor:
        """[B, 1, Q, K] 0 where a query sees a key, -inf elsewhere; made once.

        A query sees the last `window` tokens, itself included, or all.
        """
        if window not in self._by_window:
            whole = slice(0, self.queries.shape[1]), slice(0, self.keys.shape[1])
            self._by_window[window] = self.bias_of(*whole, window)
        return self._by_window[window]

    def bias_of(self, queries: slice, keys: slice, window: int | None) -> Tensor:
        """Return a part of `bias`."""
        query = torch.arange(queries.start, queries.stop, device=self.keys.device)
        key = torch.arange(keys.start, keys.stop, device=self.keys.device)
        hidden = key > (self.prefix_lengths + query).unsqueeze(-1)
        if window is not None:
            # Padded queries see what the segment's last token sees: one that sees nothing would have no softmax.
            last = self.prefix_lengths + query.minimum(self.lengths - 1)
            hidden |= key <= last.unsqueeze(-1) - window
        return torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf")).unsqueeze(1)

    def keys_seen(self, queries: slice, window: int | None) -> slice:
        """Return which keys any of these queries may see."""
        shortest, longest = self.prefixes
        # Padded queries see what their segment's last token sees.
        earliest = shortest + min(queries.start, self.shortest - 1)
        first = 0 if window is None else max(0, earliest - window + 1)
        return slice(first, min(longest + queries.stop, self.keys.shape[1]))

    def _steps(self, like: Tensor) -> Tensor:
        return torch.arange(like.shape[1], device=like.device)


@dataclass(frozen=True)
class RaggedPlan:
    """Buckets of a pack; `heads` gives the index tensors for a model's heads, built once."""

    buckets: tuple[Bucket, ...]
    back: Tensor
    """[N] place of every token among the padded queries of all buckets, laid end to end."""
    _by_heads: dict[tuple[int, int], HeadPlan] = field(default_factory=dict, compare=False)

    def heads(self, heads: int, kv_heads: int) -> HeadPlan:
        """Return the rows to gather and scatter for this many query and key-value heads."""
        key = (heads, kv_heads)
        if key not in self._by_heads:
            self._by_heads[key] = _plan_heads(self, heads, kv_heads)
        return self._by_heads[key]


@dataclass(frozen=True)
class Block:
    """Offsets of one bucket's queries [B, H, Q], keys and values [B, G, K] among all padded rows of width C."""

    queries: slice
    keys: slice
    values: slice
    batch: int
    """B * G, the products of one batched matrix product."""

    def split(self, padded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views of queries [B * G, H / G * Q, C], keys and values [B * G, K, C]."""
        query, key, value = (padded[part] for part in (self.queries, self.keys, self.values))
        shape = (self.batch, -1, padded.shape[1])
        return query.view(shape), key.view(shape), value.view(shape)

    def query(self, padded: Tensor) -> Tensor:
        """Return the view of the queries' rows alone."""
        return padded[self.queries].view(self.batch, -1, padded.shape[1])


@dataclass(frozen=True)
class HeadPlan:
    """Row indices between fused projections [N * (H + 2G), C] and the padded rows of all buckets.

    Padded rows are laid out as the queries of all buckets, then their keys, then their values.
    """

    heads: int
    """H."""
    blocks: tuple[Block, ...]
    num_queries: int
    """Padded query rows."""
    gather: Tensor
    """Projection row of every padded row."""
    gather_out: Tensor
    """Output row (of [N * H, C]) of every padded query row."""
    back: Tensor
    """[N * (H + 2G)] padded row of every projection row; keys and values are those in the token's own segment."""
    back_out: Tensor
    """[N * H] padded query row of every output row."""
    prefix_slots: Tensor
    """Padded rows that hold keys or values of a shared prefix."""
    prefix_rows: Tensor
    """Their projection rows."""


def plan_buckets(segments: Sequence[Segment], device: torch.device) -> RaggedPlan:
    """Sort segments by length into buckets and build their index tensors."""
    ordered = sorted(segments, key=lambda s: (s.length, s.whole, s.start))
    rows = rows_of(segments)
    hosted = [_bucket(chosen, [rows[segment] for segment in chosen]) for chosen in _cut(ordered)]
    first, tokens, places = 0, [], []
    for bucket in hosted:
        tokens.append(bucket.queries.flatten()[bucket.real])
        places.append(bucket.real + first)
        first += bucket.queries.numel()
    back = torch.cat(places)[torch.cat(tokens).argsort()]
    return RaggedPlan(tuple(bucket.to(device) for bucket in hosted), placed(back, device))


def _cut(ordered: list[Segment], slack: float = 0.5, least: int = 8) -> list[list[Segment]]:
    """Cut sorted segments where one would be padded by more than `slack` of its length (and `least` tokens).

    Parts of longer runs are padded by no more of what is before them, either.
    """
    groups: list[list[Segment]] = []
    for segment in ordered:
        if groups and all(
            getattr(segment, name) - getattr(groups[-1][0], name) <= max(slack * getattr(groups[-1][0], name), least)
            for name in ("length", "before")
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _bucket(chosen: list[Segment], rows: list[int]) -> Bucket:
    start, length, prefix_start, prefix_length, before = torch.tensor(chosen).unsqueeze(-1).unbind(1)
    row = torch.tensor(rows).unsqueeze(-1)
    whole = prefix_length + before
    step = torch.arange(int((whole + length).max()))
    own = start + (step - whole).minimum(length - 1)
    query = step[: int(length.max())]
    wholes = [segment.whole for segment in chosen]
    return Bucket(
        queries=row + query.minimum(length - 1),
        keys=torch.where(step < prefix_length, prefix_start + step, own),
        lengths=length,
        prefix_lengths=whole,
        real=(query < length).flatten().nonzero().squeeze(1),
        prefixes=(min(wholes), max(wholes)),
        shortest=chosen[0].length,
    )


def _plan_heads(plan: RaggedPlan, heads: int, kv_heads: int) -> HeadPlan:
    device = plan.buckets[0].queries.device
    stride = heads + 2 * kv_heads
    num_queries = sum(bucket.queries.numel() * heads for bucket in plan.buckets)
    num_keys = sum(bucket.keys.numel() * kv_heads for bucket in plan.buckets)
    back = torch.empty(plan.back.shape[0], stride, dtype=torch.long, device=device)
    head = torch.arange(heads, device=device).unsqueeze(-1)
    kv_head = head[:kv_heads]
    query_at, key_at = 0, num_queries
    blocks, from_query, from_key, from_output, slots, rows = [], [], [], [], [], []
    for bucket in plan.buckets:
        tokens, keys = bucket.queries.unsqueeze(1), bucket.keys.unsqueeze(1) * stride + heads + kv_head
        from_query.append((tokens * stride + head).flatten())
        from_output.append((tokens * heads + head).flatten())
        from_key.append(keys.flatten())
        query_slots = torch.arange(query_at, query_at + tokens.numel() * heads, device=device)
        key_slots = torch.arange(key_at, key_at + keys.numel(), device=device).view_as(keys).transpose(1, 2)
        mine = bucket.queries[bucket.is_query]
        by_token = query_slots.view(tokens.shape[0], heads, -1).transpose(1, 2)
        back[mine, :heads] = by_token[bucket.is_query]
        back[mine, heads : heads + kv_heads] = key_slots[bucket.is_own]
        slots.append(key_slots[bucket.is_prefix].flatten())
        rows.append(keys.transpose(1, 2)[bucket.is_prefix].flatten())
        blocks.append(
            Block(
                slice(query_at, query_at + query_slots.numel()),
                slice(key_at, key_at + keys.numel()),
                slice(key_at + num_keys, key_at + num_keys + keys.numel()),
                tokens.shape[0] * kv_heads,
            )
        )
        query_at, key_at = query_at + query_slots.numel(), key_at + keys.numel()
    back[:, heads + kv_heads :] = back[:, heads : heads + kv_heads] + num_keys
    key_rows, prefix_slots, prefix_rows = torch.cat(from_key), torch.cat(slots), torch.cat(rows)
    return HeadPlan(
        heads=heads,
        blocks=tuple(blocks),
        num_queries=num_queries,
        gather=torch.cat((*from_query, key_rows, key_rows + kv_heads)),
        gather_out=torch.cat(from_output),
        back=back.flatten(),
        back_out=back[:, :heads].flatten(),
        prefix_slots=torch.cat((prefix_slots, prefix_slots + num_keys)),
        prefix_rows=torch.cat((prefix_rows, prefix_rows + kv_heads)),
    )
