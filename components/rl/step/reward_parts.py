"""Rewards by operator, for people: which part a response got its reward from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def named_parts(names: Sequence[str], parts: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the parts of a reward by operator; one that occurs again is numbered: "length", "length 2"."""
    found: dict[str, Tensor] = {}
    for name, part in zip(names, parts, strict=True):
        earlier = sum(known.partition(" ")[0] == name for known in found)
        found[f"{name} {earlier + 1}" if earlier else name] = part
    return found


def placed(values: Tensor, rows: Tensor) -> Tensor:
    """Return [S] with `values` at the rows of a mask [S], NaN elsewhere."""
    whole = torch.full((len(rows),), torch.nan)
    whole[rows] = values.float()
    return whole


def concatenated(seen: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return name -> [S] over all scored batches of a step."""
    return {name: torch.cat([parts[name] for parts in seen]) for name in (seen[0] if seen else ())}
