"""Plans of attention by a varlen kernel (flash attention): which rows each call reads, and where sequences end.

Such a kernel takes sequences laid end to end. Sequence b's queries are rows [starts[b], starts[b + 1]); if it is
causal, the last query sees the last key, and each query before it one key less.

Without a window nothing is copied for a shared prefix: one call covers the segments' own tokens where they lie, another
the queries of all segments with a prefix, family by family, against each prefix once. With a window one call reads each
segment's keys after a copy of those tokens of its prefix that the window reaches. Segments that do not cover the keys,
because other ranks have the queries of the rest, read a copy of theirs.

Shapes: N tokens of the pack, R queries and T keys of one call, S sequences of one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from components.modeling.packing.placing import placed
from components.modeling.packing.ragged import Segment, rows_of


@dataclass(frozen=True, kw_only=True)
class VarlenCall:
    """One call of the kernel."""

    queries: Tensor | None
    """[R] rows of the pack; None for all in their order."""
    keys: Tensor | None
    """[T] rows of the pack; None for all in their order."""
    query_starts: Tensor
    """[S + 1] int32."""
    key_starts: Tensor
    """[S + 1] int32."""
    most_queries: int
    most_keys: int
    causal: bool
    left: int
    """Tokens before itself that a query sees; -1 for all."""


def plan_calls(
    segments: Sequence[Segment], window: int | None, device: torch.device, *, cover: bool = True
) -> tuple[VarlenCall, ...]:
    """Return the calls whose results, merged by their softmax's weights, are attention of the pack.

    A query sees the last `window` tokens, itself included, or all. `cover` says that the segments cover the keys.
    """
    rows = rows_of(segments)
    ordered = list(rows)
    if window is not None:
        return (_windowed(ordered, window, device, cover),)
    own = [segment.length for segment in ordered]
    keys = None if cover else [range(s.start - s.before, s.start + s.length) for s in ordered]
    calls = [_call(None, keys, own, own if keys is None else list(map(len, keys)), device, causal=True)]
    families: dict[tuple[int, int], list[Segment]] = {}
    for segment in ordered:
        if segment.prefix_length:
            families.setdefault((segment.prefix_start, segment.prefix_length), []).append(segment)
    if families:
        queries = [range(rows[s], rows[s] + s.length) for family in families.values() for s in family]
        shared = [range(start, start + length) for start, length in families]
        counts = [sum(s.length for s in family) for family in families.values()]
        calls.append(_call(queries, shared, counts, list(map(len, shared)), device, causal=False))
    return tuple(calls)


def _windowed(ordered: Sequence[Segment], window: int, device: torch.device, cover: bool) -> VarlenCall:
    keys = []
    counts = []
    for segment in ordered:
        end = segment.prefix_start + segment.prefix_length
        before = min(segment.before, window - 1)
        reached = min(segment.prefix_length, window - 1 - before)
        keys += [range(end - reached, end), range(segment.start - before, segment.start + segment.length)]
        counts.append(reached + before + segment.length)
    own = [segment.length for segment in ordered]
    given = None if cover and own == counts else keys
    return _call(None, given, own, counts, device, causal=True, left=window - 1)


def _call(
    queries: Iterable[range] | None,
    keys: Iterable[range] | None,
    query_counts: Sequence[int],
    key_counts: Sequence[int],
    device: torch.device,
    *,
    causal: bool,
    left: int = -1,
) -> VarlenCall:
    return VarlenCall(
        queries=_rows(queries, device),
        keys=_rows(keys, device),
        query_starts=_starts(query_counts, device),
        key_starts=_starts(key_counts, device),
        # At one query a sequence the kernel swaps heads and queries, and returns its softmax's weights in that order.
        most_queries=max(2, *query_counts),
        most_keys=max(key_counts),
        causal=causal,
        left=left,
    )


def _rows(ranges: Iterable[range] | None, device: torch.device) -> Tensor | None:
    return None if ranges is None else placed(torch.cat([torch.arange(r.start, r.stop) for r in ranges]), device)


def _starts(counts: Sequence[int], device: torch.device) -> Tensor:
    return placed(torch.tensor([0, *accumulate(counts)], dtype=torch.int32), device)
