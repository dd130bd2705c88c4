"""Parameters in which sides differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.runtime.lineage.names import flatten
from pipelines.report.collect import SEED, Stage
from pipelines.report.content import NOTHING, Cell, Rows

UNSET = None


@dataclass(frozen=True)
class Setting:
    """A parameter that is not the same on all sides."""

    stage: str
    name: str
    values: tuple[Any, ...]
    """The value of each side; None where the side has no such parameter."""


def differing(
    sides: Sequence[Sequence[Stage]], read: Callable[[Stage], Mapping[str, Any]] | None = None
) -> list[Setting]:
    """Return the parameters of the stages of each side that differ, by stage of the recipe.

    `read` gives a stage's parameters, flat; as planned without it. Of several seeds the first one counts, and the
    seeds themselves do not.
    """
    read = read or planned
    of_sides = [_first_seeds(stages) for stages in sides]
    found = []
    for step in dict.fromkeys(step for stages in of_sides for step in stages):
        params = {place: read(stages[step]) for place, stages in enumerate(of_sides) if step in stages}
        for name in dict.fromkeys(name for known in params.values() for name in known):
            values = {place: known.get(name, UNSET) for place, known in params.items()}
            first = next(iter(values.values()))
            if name != SEED and any(value != first for value in values.values()):
                found.append(Setting(step, name, tuple(values.get(place, UNSET) for place in range(len(sides)))))
    return found


def planned(stage: Stage) -> dict[str, Any]:
    """Return a stage's parameters as its recipe has them."""
    return dict(flatten(stage.entry["params"] if stage.entry else stage.params))


def _first_seeds(stages: Sequence[Stage]) -> dict[str, Stage]:
    """Return the stages by their name in every cell, with what varies within the side but its seed."""
    found: dict[str, Stage] = {}
    for stage in stages:
        found.setdefault(" ".join([stage.step, *stage.arm.values()]), stage)
    return found


def settings_table(titles: Sequence[str], found: Sequence[Setting], *, of: str = "arm") -> list[Rows]:
    """Return the parameters that differ, with the sides as columns, or as rows if there are more of them."""
    if not found:
        return []
    names = [f"{setting.stage}: {setting.name}" for setting in found]
    cells = [[_written(value) for value in setting.values] for setting in found]
    if len(titles) > len(names):
        rows = [[title, *values] for title, values in zip(titles, zip(*cells, strict=True), strict=True)]
        return [Rows([of, *names], rows, numbers_from=len(names) + 1)]
    rows = [[name, *values] for name, values in zip(names, cells, strict=True)]
    return [Rows(["parameter", *titles], rows, numbers_from=len(titles) + 1)]


def _written(value: Any) -> Cell:
    return NOTHING if value is UNSET else str(value)
