"""Histories of one stage of the recipe by arm: its seeds pooled, its rounds one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.contract.display import Curves
from pipelines.report.arms.design import title
from pipelines.report.collect import SEED, Stage

Points = list[tuple[float, float]]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One column of an arm's history."""

    mean: Points
    """The mean over seeds where all of them have a value, or the only seed."""
    band: list[tuple[float, float]]
    """The 95 % t interval of each point of the mean; empty for one seed."""
    single: dict[str, Points]
    """The seeds' own lines by name."""


@dataclass
class History:
    """The rows of one arm, by seed and round."""

    arm: Mapping[str, str]
    rows: dict[str, dict[str, list[Row]]] = field(default_factory=dict)
    """Seed -> round -> rows."""
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)
    """Column on the horizontal axis -> round -> its last value in any arm and seed."""

    @property
    def num_seeds(self) -> int:
        """Return the number of seeds."""
        return len(self.rows)

    @property
    def name(self) -> str:
        """Return what its line is: the arm, a mean of seeds, or nothing in particular."""
        return title(self.arm) or (f"mean of {self.num_seeds} seeds" if self.num_seeds > 1 else "all steps")

    @property
    def num_rounds(self) -> int:
        """Return the number of rounds of the repeats around it; 1 without a repeat."""
        return max((len(rounds) for rounds in self.rows.values()), default=0)

    def ends(self, x: str) -> list[float]:
        """Return where a round ends and the next begins."""
        ends, total = [], 0.0
        for length in self.lengths[x].values():
            total += length
            ends.append(total)
        return ends[:-1]

    def line(self, x: str, column: str) -> Line:
        """Return one column; values that are not finite are left out."""
        starts = dict(zip(self.lengths[x], [0.0, *self.ends(x)], strict=False))
        single = {
            seed: [
                (starts[number] + row[x], float(row[column]))
                for number, rows in rounds.items()
                for row in rows
                if _is_number(row.get(x)) and _is_number(row.get(column))
            ]
            for seed, rounds in self.rows.items()
        }
        mean, band = _mean(list(single.values()))
        return Line(mean, band, single)


def histories(section: Curves, stages: Sequence[Stage]) -> list[History]:
    """Return the histories of one stage of the recipe, one for each arm, in the order of the plan."""
    found: dict[tuple[tuple[str, str], ...], History] = {}
    lengths: dict[str, float] = {}
    for stage in stages:
        rows: list[Row] = [*stage.lines(section.port, section.file)]
        key = tuple(stage.arm.items())
        history = found.setdefault(key, History(stage.arm, lengths={section.x: lengths}))
        number = " ".join(str(value) for value in stage.rounds.values())
        history.rows.setdefault(f"seed {stage.labels.get(SEED, '')}", {})[number] = rows
        last = max((row[section.x] for row in rows if _is_number(row.get(section.x))), default=0)
        lengths[number] = max(lengths.get(number, 0.0), float(last))
    return list(found.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _mean(seeds: Sequence[Points]) -> tuple[Points, list[tuple[float, float]]]:
    """Return the mean of lines at the places that all of them have, with its interval."""
    if len(seeds) == 1:
        return seeds[0], []
    from components.measure.intervals import seed_interval

    known = [dict(points) for points in seeds]
    places = [x for x, _ in seeds[0] if all(x in points for points in known)] if seeds else []
    found = [seed_interval([points[x] for points in known]) for x in places]
    return [(x, one.value) for x, one in zip(places, found, strict=True)], [(one.low, one.high) for one in found]
