"""The k-th largest of more numbers than fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

HALF = 1 << 16


def kth_largest(parts: Callable[[], Iterable[Tensor]], k: int) -> float:
    """Return the k-th largest of all numbers in `parts`, float32 and not negative; it is called twice.

    Bits of such numbers, read as integers, are in the order of the numbers. The first pass counts their upper halves
    and finds the one of the k-th largest, the second the lower halves of those that have it: exact, in two histograms.
    """
    upper, k = _bin_of(_counts(parts(), lambda bits: bits >> 16), k)
    lower, _ = _bin_of(_counts(parts(), lambda bits: bits[bits >> 16 == upper] & (HALF - 1)), k)
    return float(torch.tensor([(upper << 16) | lower], dtype=torch.int32).view(torch.float32))


def _counts(parts: Iterable[Tensor], halves: Callable[[Tensor], Tensor]) -> Tensor:
    counts = torch.zeros(HALF, dtype=torch.int64)
    for part in parts:
        counts += torch.bincount(halves(part.contiguous().flatten().view(torch.int32)), minlength=HALF)
    return counts


def _bin_of(counts: Tensor, k: int) -> tuple[int, int]:
    """Return the bin of the k-th largest, and which of the largest in that bin it is."""
    above = counts.flip(0).cumsum(0)
    place = int((above < k).sum())
    before = int(above[place - 1]) if place else 0
    return HALF - 1 - place, k - before
