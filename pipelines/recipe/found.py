"""What references lead to: outputs of stages, a fallback, and how cells with several of them are told apart."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.language.nodes import Node
from pipelines.recipe.matrix import slug
from pipelines.recipe.unroll import Cell


@dataclass(frozen=True)
class Source:
    """What a reference leads to: an output (or metric) of one stage of the graph."""

    cell: Cell
    port: str


@dataclass(frozen=True)
class FirstFound:
    """A fallback: what each of its references resolves to, in the order they are tried."""

    alternatives: list[list[Source] | str]
    places: list[Node]
    """Source location of each reference."""
    or_none: bool = False
    picked: bool = False
    """Whether the best trial of the sweep says which one is taken, instead of the order."""


Found = list[Source] | str | FirstFound | None


def cell_label(cell: Cell) -> str:
    """Return a cell as a reference writes it: "method=dapo, seed=1"."""
    return ", ".join(f"{axis}={value}" for axis, value in cell.labels.items())


def agree(cell: Cell, other: Cell) -> bool:
    """Return whether two cells have the same values on shared axes."""
    return all(slug(cell.labels[axis]) == slug(other.labels[axis]) for axis in cell.labels if axis in other.labels)


def several(sources: list[Source], taker: str) -> str:
    """Return advice for a reference to several cells where only one is allowed."""
    template = sources[0].cell.template
    shared = {axis: sources[0].cell.labels[axis] for axis in sources[0].cell.labels}
    axes = ", ".join(shared)
    example = f"{template.path}[{cell_label(sources[0].cell)}].{sources[0].port}"
    return (
        f"{template.path!r} is {len(sources)} stages (its matrix: {axes}) and {taker} takes one: give this stage the "
        f"same matrix to pair them, or pick one, such as {example!r}"
    )
