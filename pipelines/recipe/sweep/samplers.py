"""Static samplers: trials that are drawn when the recipe is read, so that a plan shows them and every engine can.

Each value depends on the seed, the parameter's name and the trial's number alone: more trials, or another parameter,
leave those there were as they are, and so cached. Values have four significant digits, more in a range that is narrow
beside them, the same on every CPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from pipelines.recipe.sweep.words import RangeWords

DIGITS = 4
ATTEMPTS = 100
"""Draws for one trial until it differs from those before."""

Dimension = list[Any] | RangeWords
Space = Mapping[str, Dimension]


def draw_random(space: Space, seed: int, count: int) -> list[dict[str, Any]]:
    """Return `count` distinct random points, fewer if the space has no more."""
    found: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        for attempt in range(ATTEMPTS):
            keys = {name: f"{seed}/{number}/{name}" + (f"/{attempt}" if attempt else "") for name in space}
            point = {name: value_at(space[name], Random(keys[name]).random()) for name in space}
            if point not in found:
                found.append(point)
                break
    return found


def draw_halton(space: Space, seed: int, count: int) -> list[dict[str, Any]]:
    """Return the first `count` points of a Halton sequence, shifted by the seed (Cranley and Patterson 1976).

    They cover the space more evenly than random ones. Each parameter has the prime of its position as its base.
    """
    shifts = [Random(f"{seed}/{name}").random() for name in space]
    points = []
    for number in range(1, count + 1):
        units = [(radical_inverse(number, base) + shift) % 1.0 for base, shift in zip(_primes(), shifts, strict=False)]
        points.append({name: value_at(space[name], unit) for name, unit in zip(space, units, strict=True)})
    return points


def draw_grid(space: Space) -> list[dict[str, Any]]:
    """Return all points of the grid, the last parameter changing fastest."""
    values = [grid_values(dimension) for dimension in space.values()]
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def radical_inverse(number: int, base: int) -> float:
    """Return the digits of a whole number, mirrored at the point: 6 = 110 in base 2 becomes 0.011 = 0.375."""
    inverse, place = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        place /= base
        inverse += digit * place
    return inverse


def value_at(dimension: Dimension, unit: float) -> Any:
    """Return the value at `unit`, 0 to below 1, of the way through a dimension."""
    if isinstance(dimension, list):
        return dimension[int(unit * len(dimension))]
    low, high = dimension.low, dimension.high
    if dimension.whole and dimension.log:
        return min(int(math.exp(math.log(low) + unit * math.log((high + 1) / low))), int(high))
    if dimension.whole or dimension.step is not None:
        values = _steps(dimension)
        return values[int(unit * len(values))]
    if dimension.log:
        return _rounded(dimension, math.exp(math.log(low) + unit * math.log(high / low)))
    return _rounded(dimension, low + unit * (high - low))


def grid_values(dimension: Dimension) -> list[Any]:
    """Return a dimension's values on a grid: choices, steps, or as many points as it says from end to end."""
    if isinstance(dimension, list):
        return dimension
    if dimension.points is None:
        return _steps(dimension)
    units = [index / (dimension.points - 1) for index in range(dimension.points)]
    low, high = dimension.low, dimension.high
    values = [low * (high / low) ** unit if dimension.log else low + unit * (high - low) for unit in units]
    return list(dict.fromkeys(round(value) if dimension.whole else _rounded(dimension, value) for value in values))


def num_values(dimension: Dimension) -> float:
    """Return how many values a dimension has, infinity for a range of real numbers."""
    if isinstance(dimension, list):
        return len(dimension)
    if dimension.whole or dimension.step is not None:
        return _num_steps(dimension)
    return math.inf


def _num_steps(dimension: RangeWords) -> int:
    return int((dimension.high - dimension.low) / (dimension.step or 1) + 1e-9) + 1


def _steps(dimension: RangeWords) -> list[Any]:
    step = dimension.step or 1
    values = [dimension.low + index * step for index in range(_num_steps(dimension))]
    return values if dimension.whole else [round(value, 12) for value in values]


def _rounded(dimension: RangeWords, value: float) -> float:
    low, high = float(dimension.low), float(dimension.high)
    narrow = max(0, math.floor(math.log10(max(abs(low), abs(high)) / (high - low))))
    return min(max(float(f"{value:.{DIGITS + narrow}g}"), low), high)


def _primes() -> Iterator[int]:
    return (n for n in itertools.count(2) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))
