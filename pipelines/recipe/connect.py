"""Connections: what `stage.port` refers to in its context, through repeats and matrices.

A reference resolves to the stages beside it, then to those around. To a stage with a matrix, it means the cells that
agree with its own on shared axes; `rl[method=dapo].model` selects cells explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from components.contract.errors import InputError
from pipelines.language.nodes import UNKNOWN, Node
from pipelines.language.problems import Mark, Problems, shown
from pipelines.language.references import Resolver
from pipelines.language.uris import is_uri
from pipelines.recipe.carried import checked_uri
from pipelines.recipe.found import FirstFound, Found, Source, cell_label, several
from pipelines.recipe.matrix import slug
from pipelines.recipe.unroll import Cell, Group, Namespace, Template
from pipelines.recipe.wanted import Wanted, parse

BEST = "best"
"""The trial of a sweep that the run finds best: rl[trial=best].model."""
NONE = "none"
"""The last entry of a fallback that may yield nothing; alone, what a repeat carries into its first round."""
FILE_ENDINGS = ("jsonl", "json", "parquet", "csv", "txt", "safetensors")


def _is_none(node: Node) -> bool:
    return bool(node.value == NONE)


class Connector:
    """Follows references of one recipe, noting unresolved ones."""

    def __init__(self, resolver: Resolver, problems: Problems, folders: Mapping[str, Path]) -> None:
        self._resolver = resolver
        self._problems = problems
        self._folders = folders
        self.outputs: dict[str, list[str]] = {}
        """Stage of the file -> its outputs, for hints."""
        self.trial_axis = ""
        """The axis of a sweep's trials, of which `best` can be picked; empty without a sweep."""
        self._handed: dict[tuple[int, str, int], Found] = {}
        """Cache of what a carry or yield means to a cell: rounds that pass on fallbacks look it up repeatedly."""

    def follow(self, node: Node, cell: Cell, namespace: Namespace | None = None) -> Found:
        """Return what `node`, resolved, means to `cell`: sources, an absolute URI or a fallback; None if invalid.

        `namespace` is where the reference is written, by default beside the cell's own stage.
        """
        if node.value is UNKNOWN:
            return None
        if isinstance(node.value, list):
            return self._first_of(node, cell, namespace)
        if not isinstance(node.value, str):
            return self._note(node.mark, f"got {shown(node.plain())}, expected stage.port or a URI")
        if node.value == NONE:
            instead = f"[stage.port, {NONE}] may end with it; else leave the input out"
            return self._note(node.mark, f"{NONE!r} alone is no reference: {instead}")
        if is_uri(node.value):
            try:
                return checked_uri(node.value, self._folders, node.file)
            except InputError as error:
                return self._note(node.mark, str(error))
        wanted = parse(node)
        if isinstance(wanted, str):
            return self._note(node.mark, wanted)
        return self._find(wanted, cell, namespace or cell.template.namespace)

    def _first_of(self, node: Node, cell: Cell, namespace: Namespace | None) -> FirstFound | None:
        """Return what a list of alternatives resolves to; an alternative that is itself a fallback is inlined."""
        items = node.value
        or_none = bool(items) and items[-1].value == NONE
        items = items[:-1] if or_none else items
        if not items or any(isinstance(item.value, list) or item.value == NONE for item in items):
            expected = f"expected references, the one to be preferred first; {NONE!r} may be the last of them"
            return self._note(node.mark, f"got {shown(node.plain())}, {expected}")
        alternatives: list[list[Source] | str] = []
        places: list[Node] = []
        for item in items:
            found = self.follow(item, cell, namespace)
            if found is None:
                return None
            if isinstance(item.value, str) and is_uri(item.value) and (or_none or item is not items[-1]):
                return self._note(item.mark, f"{shown(item.value)} is always there: nothing after it is ever taken")
            if isinstance(found, FirstFound) and found.picked:
                return self._note(item.mark, f"{shown(item.value)} is always there: it stands alone, not in a list")
            or_none |= item is items[-1] and isinstance(found, FirstFound) and found.or_none
            more = found.alternatives if isinstance(found, FirstFound) else [found]
            more = [other for other in more if other not in alternatives]
            alternatives += more
            places += [item] * len(more)
        return FirstFound(alternatives, places, or_none)

    def follow_stages(self, node: Node, cell: Cell) -> list[Cell]:
        """Return the stages that `node`, the name of a stage or repeat, means to `cell`; none if invalid."""
        wanted = parse(node)
        if isinstance(wanted, str):
            self._note(node.mark, wanted)
            return []
        if wanted.port:
            self._note(node.mark, f"{shown(node.value)}: expected the name of a stage, without a port")
            return []
        try:
            target = cell.template.namespace.find(wanted.stage)
        except KeyError:
            self._problems.unknown(node.mark, "stage", wanted.stage, cell.template.namespace.visible())
            return []
        if isinstance(target, Group):
            return _cells_of(target)
        return [source.cell for source in (self._cells(wanted, cell, target) if target else None) or ()]

    def check_group(self, group: Group) -> None:
        """Note problems in the carry and yield of a repeat, even if nothing uses them."""
        first, last = group.rounds[0], group.rounds[-1]
        cells = _cells_of(group)
        if cells and first.parent is not None:
            for written, namespace in ((group.yields, last), (group.carry, first.parent)):
                for node in written.values():
                    if written is group.carry and _is_none(node):
                        continue
                    self._through(node, cells[0], namespace)

    def _find(self, wanted: Wanted, cell: Cell, namespace: Namespace) -> Found:
        if wanted.stage == "carry":
            return self._carried(wanted, cell, namespace)
        try:
            target = namespace.find(wanted.stage)
        except KeyError:
            if wanted.port in FILE_ENDINGS:
                return self._note(
                    wanted.node.mark, f"{shown(wanted.text)} is no stage.port; a path starts with ./ or /"
                )
            names = [*namespace.visible(), *(["carry"] if namespace.group else [])]
            return self._problems.unknown(wanted.node.mark, "stage", wanted.stage, names)
        if target is None:
            return None
        if not wanted.port:
            return self._note(wanted.node.mark, f"{shown(wanted.text)} names no port; expected {self._ports(target)}")
        if isinstance(target, Group):
            return self._yielded(wanted, cell, target)
        if self.trial_axis and wanted.selector.get(self.trial_axis) == BEST:
            return self._best(wanted, cell, target)
        return self._cells(wanted, cell, target)

    def _carried(self, wanted: Wanted, cell: Cell, namespace: Namespace) -> Found:
        inside: Namespace | None = namespace
        while inside is not None and inside.group is None:
            inside = inside.parent
        if inside is None or inside.group is None:
            return self._note(wanted.node.mark, f"{shown(wanted.text)}: 'carry' exists inside of a repeat only")
        group = inside.group
        if wanted.port not in group.carry:
            return self._problems.unknown(wanted.node.mark, "carried name", wanted.port, group.carry)
        if inside.round > 1:
            return self._through(group.yields[wanted.port], cell, group.rounds[inside.round - 2])
        assert inside.parent is not None
        first = group.carry[wanted.port]
        return FirstFound([], [], or_none=True) if _is_none(first) else self._through(first, cell, inside.parent)

    def _yielded(self, wanted: Wanted, cell: Cell, group: Group) -> Found:
        selector = dict(wanted.selector)
        text = selector.pop("round", str(len(group.rounds)))
        if not (text.isdecimal() and 1 <= int(text) <= len(group.rounds)):
            return self._note(wanted.node.mark, f"{shown(wanted.text)}: its rounds are 1 to {len(group.rounds)}")
        if selector:
            return self._note(wanted.node.mark, f"{shown(wanted.text)}: of a repeat only [round=...] can be picked")
        if wanted.port not in group.yields:
            return self._problems.unknown(
                wanted.node.mark, f"name in the 'yield' of {group.path!r}:", wanted.port, group.yields
            )
        return self._through(group.yields[wanted.port], cell, group.rounds[int(text) - 1])

    def _through(self, node: Node, cell: Cell, namespace: Namespace) -> Found:
        # cells of all rounds share their cached results, so that a round looks back one round at most
        own = cell.name if "${" in str(node.plain()) else repr(dict(cell.labels))
        key = id(node), own, id(namespace)
        if key not in self._handed:
            self._handed[key] = self.follow(self._resolver.resolve(node, cell.scope), cell, namespace)
        return self._handed[key]

    def _best(self, wanted: Wanted, cell: Cell, template: Template) -> FirstFound | None:
        """Return the same output of every trial: the run picks the best one's."""
        trials = dict.fromkeys(
            other.labels[self.trial_axis] for other in template.cells if self.trial_axis in other.labels
        )
        found: list[list[Source] | str] = []
        for trial in trials:
            one = replace(wanted, selector={**wanted.selector, self.trial_axis: str(trial)})
            sources = self._cells(one, cell, template)
            if not sources:
                return None
            if len(sources) > 1:
                return self._note(wanted.node.mark, several(sources, "a pick of the best trial"))
            found.append(sources)
        return FirstFound(found, [wanted.node] * len(found), picked=True)

    def _cells(self, wanted: Wanted, cell: Cell, template: Template) -> list[Source] | None:
        axes = dict.fromkeys(axis for other in template.cells for axis in other.labels if axis)
        for axis in wanted.selector:
            if axis not in axes:
                return self._problems.unknown(wanted.node.mark, f"axis of stage {template.path!r}:", axis, axes)
        chosen = {axis: slug(value) for axis, value in wanted.selector.items()}
        own = {axis: slug(value) for axis, value in cell.labels.items() if axis in axes}
        agree = {**own, **chosen}
        found = [
            Source(other, wanted.port)
            for other in template.cells
            if all(slug(other.labels[axis]) == value for axis, value in agree.items())
        ]
        if not found and template.cells:
            asked = ", ".join(f"{axis}={value}" for axis, value in agree.items())
            have = "; ".join(cell_label(other) for other in template.cells[:8])
            return self._note(
                wanted.node.mark, f"{shown(wanted.text)}: {template.path!r} has no cell {asked} (it has: {have})"
            )
        return found

    def _ports(self, target: Template | Group) -> str:
        if isinstance(target, Group):
            names = [f"{target.path}.{name}" for name in target.yields]
        else:
            names = [f"{target.path}.{port}" for port in self.outputs.get(target.path, ())]
        return " or ".join(names) or f"{target.path}.<port>"

    def _note(self, mark: Mark, message: str) -> None:
        self._problems.add(mark, message)


def _cells_of(group: Group) -> list[Cell]:
    """Return the stages of the last round, those of inner repeats included."""
    cells: list[Cell] = []
    for target in group.rounds[-1].names.values():
        if target is not None:
            cells += _cells_of(target) if isinstance(target, Group) else target.cells
    return cells
