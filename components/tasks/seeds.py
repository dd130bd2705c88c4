"""Seeds: one tree, so that streams for different purposes are independent."""

from __future__ import annotations

import random

from components.contract.artifacts import hash_parts


def derive_seed(seed: int, *labels: str | int) -> int:
    """Return the 63-bit seed of a labelled branch; equal arguments give equal seeds in any process."""
    return int(hash_parts(str(seed), *map(str, labels))[:16], 16) >> 1


def derive_rng(seed: int, *labels: str | int) -> random.Random:
    """Return a Python generator seeded by `derive_seed`."""
    return random.Random(derive_seed(seed, *labels))
