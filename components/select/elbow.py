"""The elbow of a curve: where a candidate has gained most for how far it went."""

from __future__ import annotations

from collections.abc import Sequence

ROUNDING = 1e-9
"""Heights that differ by less are equal."""


def elbow(gains: Sequence[float], distances: Sequence[float]) -> int | None:
    """Return the index of the candidate with the largest gain / best gain - distance / largest distance, or None.

    `gains` are over the start, which is the point (0, 0), and `distances` from it. Of equals it is the earliest. None
    where no candidate gains anything, or none has moved.
    Source: Satopaa et al. 2011, Finding a "Kneedle" in a Haystack: the difference curve of a concave, rising one. It is
    not smoothed. Carve3D (2023) takes the checkpoint at the elbow of reward over divergence, by eye.
    """
    best, farthest = max(gains, default=0.0), max(distances, default=0.0)
    if best <= 0 or farthest <= 0:
        return None
    heights = [gain / best - distance / farthest for gain, distance in zip(gains, distances, strict=True)]
    return next(index for index, height in enumerate(heights) if height >= max(heights) - ROUNDING)
