"""Statics of a simply supported beam under point loads, in exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Beam:
    """A pin, a roller elsewhere, and loads (size, place); places count from the left end."""

    pin: int
    roller: int
    loads: tuple[tuple[int, int], ...]

    @property
    def moment(self) -> int:
        """Return the loads' moment about the pin."""
        return sum(size * (place - self.pin) for size, place in self.loads)

    def reactions(self) -> tuple[Fraction, Fraction]:
        """Return what pin and roller carry: moments about the pin vanish, and forces do."""
        roller = Fraction(self.moment, self.roller - self.pin)
        return sum(size for size, _ in self.loads) - roller, roller
