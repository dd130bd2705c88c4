"""A memory of responses by prompt, and how far a new one is from those to the nearest prompts.

Shapes: K prompts, V responses, D width of features.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


ROUNDING = 1e-6
"""Differences of distances between features that copies of one text may have."""


@dataclass(frozen=True)
class Bounds:
    """How much a memory holds; the oldest goes first."""

    prompts: int
    responses: int
    """Of each prompt."""
    total: int
    """Responses of all prompts."""
    window: int
    """Latest distances that a new one is scaled by."""


class Episodes:
    """Features of responses by prompt. `state` is JSON, for an operator's memory."""

    def __init__(self, bounds: Bounds, state: Mapping[str, Any] | None = None) -> None:
        self.bounds = bounds
        self.keys: dict[str, Tensor] = {}
        """Prompt's id -> its feature [D], oldest first."""
        self.values: dict[str, list[Tensor]] = {}
        """Prompt's id -> features [D] of responses, oldest first."""
        self._matrix: Tensor | None = None
        """The keys [K, D], until there is another one."""
        self.window: list[float] = []
        self.num_responses = 0
        if state:
            self._restore(state)

    def insert(self, prompt: str, key: Tensor, value: Tensor) -> None:
        """Add a response; what exceeds a bound is forgotten."""
        if prompt not in self.keys and len(self.keys) >= self.bounds.prompts:
            self._forget(next(iter(self.keys)))
        if prompt not in self.keys:
            self.keys[prompt], self._matrix = key, None
        own = self.values.setdefault(prompt, [])
        own.append(value)
        self.num_responses += 1
        if len(own) > self.bounds.responses:
            own.pop(0)
            self.num_responses -= 1
        while self.num_responses > self.bounds.total and len(self.keys) > 1:
            self._forget(next(iter(self.keys)))

    def nearest(self, key: Tensor, count: int) -> Tensor | None:
        """Return the responses [V, D] to the `count` prompts nearest to a feature [D] (Euclidean); None if empty."""
        import torch

        if not self.keys:
            return None
        if self._matrix is None:
            self._matrix = torch.stack(list(self.keys.values()))
        names, distances = list(self.keys), (self._matrix - key).square().sum(1)
        chosen = distances.argsort(stable=True)[:count].tolist()
        return torch.stack([value for index in chosen for value in self.values[names[index]]])

    def scaled(self, distance: float) -> float | None:
        """Return a distance as its place between the least and the largest of the window, itself among them.

        None where all of the window are equal but for rounding: there is nothing to compare with.
        """
        self.window = [*self.window, distance][-self.bounds.window :]
        least, most = min(self.window), max(self.window)
        return None if most - least < ROUNDING else (distance - least) / (most - least)

    def state(self) -> dict[str, Any]:
        """Return JSON values: numbers as base64 of float32, so that a resumed run has the same ones."""
        values = [value for own in self.values.values() for value in own]
        counts = [len(own) for own in self.values.values()]
        return {
            "prompts": list(self.keys),
            "counts": counts,
            "keys": _packed(list(self.keys.values())),
            "values": _packed(values),
            "window": self.window,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        prompts, counts = state["prompts"], state["counts"]
        self.keys = dict(zip(prompts, _unpacked(state["keys"], len(prompts)), strict=True))
        values = iter(_unpacked(state["values"], sum(counts)))
        self.values = {name: [next(values) for _ in range(count)] for name, count in zip(prompts, counts, strict=True)}
        self.window, self.num_responses = list(state["window"]), sum(counts)

    def _forget(self, prompt: str) -> None:
        del self.keys[prompt]
        self._matrix = None
        self.num_responses -= len(self.values.pop(prompt))


def _packed(vectors: Sequence[Tensor]) -> str:
    import torch

    return base64.b64encode(torch.stack(list(vectors)).float().numpy().tobytes()).decode() if vectors else ""


def _unpacked(text: str, count: int) -> list[Tensor]:
    import numpy as np
    import torch

    whole = torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype=np.float32).copy())
    return list(whole.reshape(count, -1)) if count else []
