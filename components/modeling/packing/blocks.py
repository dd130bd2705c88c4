"""Plans of attention by torch's flex kernel: which blocks of queries see some of a block of keys, and which see all.

Built from the segments' ends, without a mask of every query and key. Tokens stay in the pack's order, ungathered.

Shapes: N tokens of the pack, n its blocks of BLOCK tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from components.modeling.packing.placing import placed
from components.modeling.packing.ragged import Segment

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Tokens of a block, the kernel's own size."""
Seen = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def plan_blocks(segments: Sequence[Segment], window: int | None, device: torch.device) -> BlockMask:
    """Return the blocks of a pack whose queries see the last `window` tokens, themselves included, or all."""
    from torch.nn.attention.flex_attention import BlockMask

    num_tokens = sum(segment.length for segment in segments)
    some, every = _touched(segments, window, -(-num_tokens // BLOCK))
    return BlockMask.from_kv_blocks(
        *_listed(some & ~every, device),
        *_listed(every, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=seen_by(*_bounds(segments, device), window),
        seq_lengths=(num_tokens, num_tokens),
    )


def seen_by(start: Tensor, prefix_start: Tensor, prefix_end: Tensor, window: int | None) -> Seen:
    """Return the rule for one query and one key; start, prefix_start and prefix_end [N] are of each query's segment."""

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        own = (key >= start[query]) & (key <= query)
        shared = (key >= prefix_start[query]) & (key < prefix_end[query])
        if window is None:
            return own | shared
        age = torch.where(own, query - key, query - start[query] + prefix_end[query] - key)
        return (own | shared) & (age < window)

    return seen


def _bounds(segments: Sequence[Segment], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    ordered = torch.tensor(sorted(segments), dtype=torch.int32)
    start, length, prefix_start, prefix_length = ordered.unbind(1)
    of = torch.repeat_interleave(length.long())
    columns = (start, prefix_start, prefix_start + prefix_length)
    return tuple(placed(column[of], device) for column in columns)  # type: ignore[return-value]


def _touched(segments: Sequence[Segment], window: int | None, count: int) -> tuple[Tensor, Tensor]:
    """Return two masks [n, n]: where any query of a block sees any key of one, and where every one sees all."""
    some, every = (torch.zeros(count, count, dtype=torch.bool) for _ in range(2))
    reach = window or sum(segment.length + segment.prefix_length for segment in segments)
    for segment in segments:
        end, prefix_end = segment.start + segment.length, segment.prefix_start + segment.prefix_length
        for row in range(segment.start // BLOCK, -(-end // BLOCK)):
            first, last = max(segment.start, row * BLOCK), min(end, (row + 1) * BLOCK) - 1
            whole = last - first == BLOCK - 1
            # (keys from, keys to, what a key's place is behind a query of this block by position)
            own = (segment.start, last + 1, 0)
            shared = (segment.prefix_start, prefix_end, prefix_end - segment.start)
            for low, high, shift in (own, shared):
                low_seen = max(low, first + shift - reach + 1)
                if low_seen < high:
                    some[row, low_seen // BLOCK : -(-high // BLOCK)] = True
                # Of its own keys a block sees all only where they are before all of its queries.
                inner_high = min(high, first) if shift == 0 else high
                inner = slice(-(-max(low, last + shift - reach + 1) // BLOCK), inner_high // BLOCK)
                if whole and inner.start < inner.stop:
                    every[row, inner] = True
    return some, every


def _listed(mask: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys each block of queries has [1, 1, n], and which, those first [1, 1, n, n]."""
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    tensors = (mask.sum(1).int(), order.int())
    return tuple(placed(tensor[None, None].contiguous(), device) for tensor in tensors)  # type: ignore[return-value]
