"""A pool as a continuous space of tasks: each prompt is a point, given by its generator's settings."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.rl.curricula.categories import field_of

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt

Point = tuple[float, ...]


@dataclass(frozen=True)
class TaskSpace:
    """Points of all prompts of a pool, each coordinate within [0, 1]."""

    ids: tuple[str, ...]
    points: tuple[Point, ...]

    @cached_property
    def point_of(self) -> dict[str, Point]:
        """Return prompt id -> point."""
        return dict(zip(self.ids, self.points, strict=True))

    def nearest(self, point: Sequence[float]) -> int:
        """Return the index of the prompt whose task is nearest to the point, after clipping it to the space."""
        inside = [min(1.0, max(0.0, value)) for value in point]
        return min(range(len(self.points)), key=lambda index: math.dist(self.points[index], inside))

    def anywhere(self, rng: random.Random) -> int:
        """Return the index of the prompt nearest to a point drawn uniformly from the space."""
        return self.nearest([rng.random() for _ in self.points[0]])

    def landmarks(self, count: int) -> list[int]:
        """Return `count` different prompts that cover the space; the same for every learner.

        The first is the nearest to the centre, each later one the farthest from those before it.
        """
        chosen = [self.nearest([0.5] * len(self.points[0]))]
        gaps = [math.dist(point, self.points[chosen[0]]) for point in self.points]
        while len(chosen) < min(count, len(self.points)):
            chosen.append(max(range(len(gaps)), key=gaps.__getitem__))
            new = self.points[chosen[-1]]
            gaps = [min(gap, math.dist(point, new)) for gap, point in zip(gaps, self.points, strict=True)]
        return chosen


def task_space(pool: Sequence[Prompt], fields: Sequence[str]) -> TaskSpace:
    """Return the space of numeric fields of the prompts' data, given as dotted paths.

    A field with few integer values would give a grid, on which densities are meaningless. So each value fills a cell
    of width 1, and the prompt's id determines its position in the cell.
    """
    rows = [[_number(prompt, path) for path in fields] for prompt in pool]
    lows = [min(column) for column in zip(*rows, strict=True)]
    highs = [max(column) for column in zip(*rows, strict=True)]
    points = []
    for prompt, row in zip(pool, rows, strict=True):
        place = random.Random(f"task/{prompt.item.id}")
        points.append(
            tuple(
                (value - low + place.random()) / (high - low + 1)
                for value, low, high in zip(row, lows, highs, strict=True)
            )
        )
    return TaskSpace(tuple(prompt.item.id for prompt in pool), tuple(points))


def _number(prompt: Prompt, path: str) -> float:
    value = field_of(prompt.item, path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"sampler: {path!r} of prompt {prompt.item.id} is no number but {value!r}")
    return float(value)
