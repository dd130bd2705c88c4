"""Plans of attention by torch's flex kernel: which blocks of queries see some of a block of keys, and which see all.

Built from the segments' ends, without a mask of every query and key. Tokens stay in the pack's order, ungathered.

Shapes: n blocks of BLOCK queries, m of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from components.modeling.packing.placing import placed
from components.modeling.packing.ragged import Segment, rows_of

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Tokens of a block, the kernel's own size."""
Seen = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def plan_blocks(
    segments: Sequence[Segment], window: int | None, device: torch.device, num_keys: int | None = None
) -> BlockMask:
    """Return the blocks of a pack whose queries see the last `window` tokens, themselves included, or all.

    `num_keys` is given where the segments do not cover the keys.
    """
    from torch.nn.attention.flex_attention import BlockMask

    num_queries = sum(segment.length for segment in segments)
    num_keys = num_queries if num_keys is None else num_keys
    some, every = _touched(segments, window, -(-num_queries // BLOCK), -(-num_keys // BLOCK))
    return BlockMask.from_kv_blocks(
        *_listed(some & ~every, device),
        *_listed(every, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=seen_by(*_bounds(segments, device), window),
        seq_lengths=(num_queries, num_keys),
    )


def seen_by(own: Tensor, first: Tensor, prefix_start: Tensor, prefix_end: Tensor, window: int | None) -> Seen:
    """Return the rule for one query and one key.

    All tensors are of each query: its own key, the first that it sees beside its prefix, and its prefix.
    """

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        mine = (key >= first[query]) & (key <= own[query])
        shared = (key >= prefix_start[query]) & (key < prefix_end[query])
        if window is None:
            return mine | shared
        age = torch.where(mine, own[query] - key, own[query] - first[query] + prefix_end[query] - key)
        return (mine | shared) & (age < window)

    return seen


def _bounds(segments: Sequence[Segment], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    ordered = torch.tensor(sorted(segments), dtype=torch.int32)
    start, length, prefix_start, prefix_length, before = ordered.unbind(1)
    of = torch.repeat_interleave(length.long())
    rows = torch.arange(len(of), dtype=torch.int32)
    row = length.cumsum(0, dtype=torch.int32) - length
    columns = ((start - row)[of] + rows, (start - before)[of], prefix_start[of], (prefix_start + prefix_length)[of])
    return tuple(placed(column, device) for column in columns)  # type: ignore[return-value]


def _touched(segments: Sequence[Segment], window: int | None, num_queries: int, num_keys: int) -> tuple[Tensor, Tensor]:
    """Return two masks [blocks of queries, of keys]: where any query sees any key, and where every one sees all."""
    some, every = (torch.zeros(num_queries, num_keys, dtype=torch.bool) for _ in range(2))
    reach = window or sum(segment.keys for segment in segments)
    for segment, at in rows_of(segments).items():
        end, prefix_end = at + segment.length, segment.prefix_start + segment.prefix_length
        begin, shift = segment.start - segment.before, segment.start - at
        for row in range(at // BLOCK, -(-end // BLOCK)):
            whole = at <= row * BLOCK and (row + 1) * BLOCK <= end
            # by their own keys
            first, last = max(at, row * BLOCK) + shift, min(end, (row + 1) * BLOCK) - 1 + shift
            # (keys from, keys to, what a key's place is behind a query of this block by position)
            own = (begin, last + 1, 0)
            shared = (segment.prefix_start, prefix_end, prefix_end - begin)
            for low, high, behind in (own, shared):
                low_seen = max(low, first + behind - reach + 1)
                if low_seen < high:
                    some[row, low_seen // BLOCK : -(-high // BLOCK)] = True
                # Of its own keys a block sees all only where they are before all of its queries.
                inner_high = min(high, first) if behind == 0 else high
                inner = slice(-(-max(low, last + behind - reach + 1) // BLOCK), inner_high // BLOCK)
                if whole and inner.start < inner.stop:
                    every[row, inner] = True
    return some, every


def _listed(mask: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys each block of queries has [1, 1, n], and which, those first [1, 1, n, m]."""
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    tensors = (mask.sum(1).int(), order.int())
    return tuple(placed(tensor[None, None].contiguous(), device) for tensor in tensors)  # type: ignore[return-value]
