"""weight_update.json: how far weights moved from the reference, by layer and by kind of tensor.

The reference is the base, or the first model where there is no base.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from components.merge.sums import dot

FILE = "weight_update.json"
ALL = "all tensors"
_LAYER = re.compile(r"(?:^|\.)(\d+)\.")


@dataclass
class Sums:
    """What is summed over the entries of some tensors."""

    entries: int = 0
    reference: float = 0.0
    """Squares of the reference."""
    moved: dict[str, float] = field(default_factory=dict)
    """Model -> squares of its differences from the reference."""
    products: dict[str, float] = field(default_factory=dict)
    """Pair of models -> inner product of their differences."""
    conflicts: int = 0
    """Entries to which two models give different signs."""
    shared: int = 0
    """Entries that two models or more have moved."""

    def add(self, other: Sums) -> None:
        """Add the sums of other tensors."""
        self.entries += other.entries
        self.reference += other.reference
        self.conflicts += other.conflicts
        self.shared += other.shared
        for mine, theirs in ((self.moved, other.moved), (self.products, other.products)):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0.0) + value

    def row(self) -> dict[str, Any]:
        """Return relative norms, cosines, and the share of sign conflicts, without what is not defined."""
        size = math.sqrt(self.reference)
        found: dict[str, Any] = {"entries": self.entries}
        found["moved"] = {name: math.sqrt(value) / size for name, value in self.moved.items()} if size else {}
        found["cosine"] = {}
        for pair, product in self.products.items():
            norms = math.sqrt(math.prod(self.moved[name] for name in pair.split(" and ")))
            if norms:
                found["cosine"][pair] = product / norms
        if self.shared:
            found["sign_conflicts"] = self.conflicts / self.shared
        return found


class Moves:
    """Collects the differences of models, and of what is merged of them, from the reference."""

    def __init__(self, models: Sequence[str], tensors: Iterable[str], *, has_base: bool) -> None:
        """`models` and `tensors` are names; without a base the first model is the reference."""
        self.models, self.has_base = list(models), has_base
        self._tensors = {name: Sums() for name in tensors}

    def has_models(self, tensor: str) -> bool:
        """Return whether blocks of this tensor of the models have been added."""
        return self._tensors[tensor].entries > 0

    def add_models(self, tensor: str, reference: Tensor, models: Sequence[Tensor]) -> None:
        """Add a block of all models."""
        sums = self._tensors[tensor]
        sums.entries += reference.numel()
        sums.reference += dot(reference, reference)
        named = zip(self.models, models, strict=True)
        deltas = {name: model - reference for name, model in (named if self.has_base else list(named)[1:])}
        for name, delta in deltas.items():
            sums.moved[name] = sums.moved.get(name, 0.0) + dot(delta, delta)
        if len(deltas) < 2:
            return
        for first, second in combinations(deltas, 2):
            pair = f"{first} and {second}"
            sums.products[pair] = sums.products.get(pair, 0.0) + dot(deltas[first], deltas[second])
        signs = torch.stack([delta.sign() for delta in deltas.values()])
        up, down = (signs > 0).sum(0), (signs < 0).sum(0)
        sums.shared += int((up + down >= 2).sum())
        sums.conflicts += int(((up > 0) & (down > 0)).sum())

    def add_merged(self, tensor: str, name: str, reference: Tensor, merged: Tensor) -> None:
        """Add a block of a merged model."""
        moved, delta = self._tensors[tensor].moved, merged - reference
        moved[name] = moved.get(name, 0.0) + dot(delta, delta)

    def total(self) -> dict[str, Any]:
        """Return the row of all tensors."""
        return self.rows()[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for all tensors, for each layer and for each kind of tensor, in the order of the layers."""
        groups: dict[tuple[str, str], Sums] = {("all", ALL): Sums()}
        for name, sums in self._tensors.items():
            for key in (("all", ALL), *_groups(name)):
                groups.setdefault(key, Sums()).add(sums)
        ordered = sorted(groups.items(), key=lambda item: _place(*item[0]))
        return [{"part": part, "by": by, **sums.row()} for (by, part), sums in ordered]

    def tensors(self) -> list[dict[str, Any]]:
        """Return a row for each tensor."""
        return [{"tensor": name, **sums.row()} for name, sums in self._tensors.items()]


def _groups(name: str) -> Iterator[tuple[str, str]]:
    layer = _LAYER.search(name)
    if layer:
        yield "layer", f"layer {layer[1]}"
    yield "kind", kind_of(name)


def kind_of(name: str) -> str:
    """Return which part of a layer, or of the model, a tensor is: self_attn.q_proj, embed_tokens."""
    parts = _LAYER.sub(".layer.", name).split(".")
    inner = parts[parts.index("layer") + 1 :] if "layer" in parts else parts[-2:]
    return ".".join(inner[:-1] if inner[-1:] == ["weight"] and len(inner) > 1 else inner)


def _place(by: str, part: str) -> tuple[int, int, str]:
    digits = part.rpartition(" ")[2]
    return ("all", "layer", "kind").index(by), int(digits) if by == "layer" else 0, part


def report(moves: Moves, merged: Sequence[str], reference: str) -> Mapping[str, Any]:
    """Return the content of weight_update.json."""
    note = (
        f"Distances are from {reference}, as shares of its norm; cosines are between the models' differences from it."
    )
    return {
        "note": note,
        "reference": reference,
        "models": moves.models,
        "merged": list(merged),
        "rows": moves.rows(),
        "tensors": moves.tensors(),
    }
