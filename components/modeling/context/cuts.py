"""Which tokens of a pack each rank of a context group computes: as many, and as much attention, as every other one.

A causal run is cut into twice as many chunks as there are ranks, and rank i takes chunks i and 2n - 1 - i (Llama 3:
Dubey et al. 2024, arXiv:2407.21783, section 3.3.2): what early tokens attend to and what late ones do add up alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.modeling.packing.ragged import Segment

LEAST_CHUNK = 64
"""Tokens of a chunk from which a run is cut by itself."""
LIKE = 2
"""How many times as many keys as others a segment may have that is cut together with them."""


def cut(segments: Sequence[Segment], ranks: int, *, least: int = LEAST_CHUNK) -> list[list[Segment]]:
    """Return the parts of a pack's segments that each rank computes, by their starts; a rank may have none.

    A long segment is cut by itself; shorter ones whose tokens attend to like numbers are laid end to end and cut
    together. Tokens of ranks differ by at most 2 for each of these runs.
    """
    found: list[list[Segment]] = [[] for _ in range(ranks)]
    for run in _runs(segments, 2 * ranks * least):
        for chunk, parts in enumerate(_chunks(run, 2 * ranks)):
            found[min(chunk, 2 * ranks - 1 - chunk)] += parts
    return [_joined(parts) for parts in found]


def _runs(segments: Sequence[Segment], least: int) -> list[list[Segment]]:
    """Return the segments in runs of at least so many tokens, but for the last."""
    found = [[segment] for segment in segments if segment.length >= least]
    # Those whose tokens attend to most come first, so that each rank has of both ends.
    rest = sorted((s for s in segments if s.length < least), key=lambda segment: (-segment.keys, segment.start))
    tokens = 0
    for segment in rest:
        if segment is rest[0] or (tokens >= least and LIKE * segment.keys < found[-1][0].keys):
            found.append([])
            tokens = 0
        found[-1].append(segment)
        tokens += segment.length
    return found


def _chunks(run: Sequence[Segment], count: int) -> list[list[Segment]]:
    """Return the parts of segments in each of `count` chunks of their tokens, laid end to end."""
    total = sum(segment.length for segment in run)
    borders = [total * chunk // count for chunk in range(count + 1)]
    found: list[list[Segment]] = [[] for _ in range(count)]
    at = 0
    for segment in run:
        for chunk in range(count):
            low, high = max(borders[chunk] - at, 0), min(borders[chunk + 1] - at, segment.length)
            if low < high:
                part = segment._replace(start=segment.start + low, length=high - low, before=segment.before + low)
                found[chunk].append(part)
        at += segment.length
    return found


def _joined(parts: Sequence[Segment]) -> list[Segment]:
    """Return parts by their starts; neighbours of one segment become one."""
    found: list[Segment] = []
    for part in sorted(parts):
        last = found[-1] if found else None
        if last is not None and part.before and last.start + last.length == part.start:
            found[-1] = last._replace(length=last.length + part.length)
        else:
            found.append(part)
    return found
