"""Unrolling: repeats and matrices of a recipe become plain stages, so that every engine sees one acyclic graph.

A repeat gives `<group>-<round>-<stage>`, a matrix cell `<stage>-<axis>-<value>`; both are also labels of the stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from components.contract.errors import nearest
from pipelines.language.find import is_name
from pipelines.language.nodes import UNKNOWN, Node
from pipelines.language.problems import Problems, shown
from pipelines.language.references import Resolver, Scope
from pipelines.recipe.grammar import GROUP_KEYS, MAX_CELLS, MAX_ROUNDS, MAX_STAGES, RESERVED, STAGE_KEYS
from pipelines.recipe.matrix import BROKEN, Axis, Label, Trials, is_count, is_none, keep_axes, products, read_axes, slug

MAX_STAGE_NAME = 120
MAX_GROUP_DEPTH = 3


@dataclass(frozen=True)
class Cell:
    """One stage of the graph: a stage of the file in one cell of its matrix."""

    name: str
    template: Template
    labels: Mapping[str, Label]
    """The values of the matrix's axes."""
    scope: Scope
    seed: int
    """The recipe's seed, or the one of the cell if there is an axis `seed`."""

    def added(self, suffix: str) -> Cell:
        """Return the cell of a stage that this one brings: as if the file had one of that name in its place."""
        template = self.template
        own = replace(template, name=template.name + suffix, path=template.path + suffix, cells=[])
        return replace(self, name=own.name + self.name.removeprefix(template.name), template=own)


@dataclass
class Template:
    """A stage of the file in one round of its repeats, before its matrix is applied."""

    name: str
    path: str
    """Its name in the file: "rl", or "loop.rl" inside of a repeat."""
    node: Node
    namespace: Namespace
    rounds: Mapping[str, int] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)


@dataclass
class Group:
    """A repeat: its rounds, what each yields under which name, and what the first starts from."""

    path: str
    rounds: list[Namespace]
    yields: dict[str, Node]
    carry: dict[str, Node]


@dataclass
class Namespace:
    """The stages that a reference can resolve to: those beside it, then those around."""

    parent: Namespace | None = None
    names: dict[str, Template | Group | None] = field(default_factory=dict)
    """None for a stage whose own problems are noted."""
    group: Group | None = None
    round: int = 0

    def find(self, name: str) -> Template | Group | None:
        """Return the nearest stage or group called `name`; raise KeyError when there is none."""
        if name in self.names:
            return self.names[name]
        if self.parent is None:
            raise KeyError(name)
        return self.parent.find(name)

    def visible(self) -> list[str]:
        """Return all names that can be referred to."""
        return [*self.names, *(self.parent.visible() if self.parent else ())]


@dataclass(frozen=True)
class _Context:
    """Current position of the unrolling in the file."""

    names: Mapping[str, Any]
    """What references can name here: params, seed, round."""
    axes: tuple[Axis, ...] = ()
    prefix: str = ""
    path: str = ""
    depth: int = 0
    rounds: Mapping[str, int] = field(default_factory=dict)


class Unroller:
    """Expands the stages of one recipe."""

    def __init__(
        self,
        params: Mapping[str, Node],
        seed: int,
        resolver: Resolver,
        problems: Problems,
        trials: Trials | None = None,
    ) -> None:
        self._names: dict[str, Any] = {"params": params, "seed": seed}
        self._trials = trials
        self._seed = seed
        self._resolver = resolver
        self._problems = problems
        self._cells: dict[str, Cell] = {}
        self.groups: list[Group] = []
        self.root = Namespace()
        """The stages at the top of the file."""

    def unroll(self, stages: Node | None, matrix: Node | None) -> list[Cell]:
        """Return all cells in the order of the file."""
        context = _Context(self._names)
        axes = self._axes(matrix, context) if matrix is not None and not is_none(matrix) else ()
        if stages is not None and stages.value is not None:
            self._namespace(stages, _Context(self._names, axes), self.root)
        return list(self._cells.values())

    def _namespace(self, stages: Node, context: _Context, namespace: Namespace) -> None:
        if not isinstance(stages.value, dict):
            self._problems.add(stages.mark, f"stages: got {shown(stages.plain())}, expected 'name: {{uses: ...}}'")
            return
        around = context
        for name, node in stages.value.items():
            if self._trials is not None and not around.depth:
                in_trials = name in self._trials.stages
                context = replace(around, axes=(*around.axes, self._trials.axis)) if in_trials else around
            # registered even if broken, so that references to it are not reported as well
            namespace.names[name] = None
            if self._is_stage(name, node):
                if "repeat" in node.value:
                    namespace.names[name] = self._group(name, node, context, namespace)
                else:
                    namespace.names[name] = self._template(name, node, context, namespace)

    def _is_stage(self, name: str, node: Node) -> bool:
        """Return whether a stage is well formed, noting its problems."""
        if not is_name(name):
            expected = "not a name (a-z first, then a-z, 0-9, '-', '_'; at most 63)"
            self._problems.add(node.where, f"stage {shown(name)}: {expected}")
            return False
        if name in RESERVED:
            self._problems.add(node.where, f"stage {name!r}: the word means something in references; choose another")
            return False
        if not isinstance(node.value, dict):
            self._problems.add(node.mark, f"stage {name!r}: got {shown(node.plain())}, expected 'uses: ...' and more")
            return False
        keys = GROUP_KEYS if "repeat" in node.value else STAGE_KEYS
        strange = [key for key in node.value if key not in keys]
        for key in strange:
            self._problems.unknown(node.value[key].where, f"key in stage {name!r}:", key, keys)
        misspelt = {nearest(key[:MAX_STAGE_NAME], (*keys, "repeat")) for key in strange} & {"uses", "repeat"}
        if not ("uses" in node.value or "repeat" in node.value or misspelt):
            self._problems.add(node.where, f"stage {name!r}: 'uses' is missing: which component does it run?")
        return not strange and ("uses" in node.value or "repeat" in node.value)

    # Repeats

    def _group(self, name: str, node: Node, context: _Context, namespace: Namespace) -> Group | None:
        path = f"{context.path}{name}"
        count = self._resolver.resolve(node.value["repeat"], self._scope(context))
        if count.value is UNKNOWN:
            return None
        if not is_count(count.value, MAX_ROUNDS) or count.value == 0:
            expected = f"expected a whole number of rounds from 1 to {MAX_ROUNDS}"
            self._problems.add(count.mark, f"stage {name!r}, repeat: got {shown(count.plain())}, {expected}")
            return None
        if context.depth >= MAX_GROUP_DEPTH:
            self._problems.add(node.where, f"stage {name!r}: repeats are nested more than {MAX_GROUP_DEPTH} deep")
            return None
        stages = node.child("stages")
        if stages is None or not stages.value:
            self._problems.add(node.where, f"stage {name!r}: a repeat needs 'stages: {{name: {{uses: ...}}}}'")
            return None
        carry, yields = (self._mapping(node.child(key), f"stage {name!r}, {key}") for key in ("carry", "yield"))
        if carry is None or yields is None:
            return None
        for key, child in carry.items():
            if key not in yields:
                self._problems.add(
                    child.where, f"stage {name!r}, carry: {key!r} is not in 'yield', so no round can hand it on"
                )
                return None
        group = Group(path, [], yields, carry)
        self.groups.append(group)
        axes = self._stage_axes(name, node.child("matrix"), context)
        for index in range(1, count.value + 1):
            inner = Namespace(namespace, group=group, round=index)
            group.rounds.append(inner)
            rounds = {**context.rounds, "round" if not context.depth else f"round-{context.depth + 1}": index}
            names = {**context.names, "round": index}
            prefix = f"{context.prefix}{name}-{index}-"
            self._namespace(stages, _Context(names, axes, prefix, f"{path}.", context.depth + 1, rounds), inner)
        return group

    def _mapping(self, node: Node | None, what: str) -> dict[str, Node] | None:
        if node is None or node.value is None:
            return {}
        if isinstance(node.value, dict):
            return dict(node.value)
        self._problems.add(node.mark, f"{what}: got {shown(node.plain())}, expected 'name: stage.port' lines")
        return None

    # Matrices

    def _template(self, name: str, node: Node, context: _Context, namespace: Namespace) -> Template:
        template = Template(f"{context.prefix}{name}", f"{context.path}{name}", node, namespace, context.rounds)
        axes = self._stage_axes(name, node.child("matrix"), context)
        if math.prod(len(axis.values) for axis in axes) > MAX_CELLS:
            self._problems.add(node.where, f"stage {name!r}: its matrix has more than {MAX_CELLS} cells")
            axes = ()
        for labels in products(axes):
            cell = self._cell(template, axes, labels, context)
            other = self._cells.get(cell.name)
            if other is not None and other.template is not template:
                self._problems.add(
                    node.where, f"stage {shown(cell.name)} is also what {other.template.path!r} unrolls to; rename one"
                )
            elif len(cell.name) > MAX_STAGE_NAME:
                self._problems.add(
                    node.where, f"stage {shown(cell.name)}: unrolled to more than {MAX_STAGE_NAME} characters"
                )
            self._cells[cell.name] = cell
            template.cells.append(cell)
        if len(self._cells) > MAX_STAGES:
            self._problems.add(node.where, f"the recipe unrolls to more than {MAX_STAGES} stages")
            self._problems.stop()
        return template

    def _cell(self, template: Template, axes: tuple[Axis, ...], labels: Mapping[str, Label], context: _Context) -> Cell:
        values = {axis.name: axis.values[labels[axis.name]] for axis in axes}
        seed = values["seed"].value if "seed" in values else self._seed
        names = {**context.names, "seed": seed}
        if self._trials is not None and self._trials.axis in axes:
            names["params"] = self._trials.params[labels[self._trials.axis.name]]
        if axes:
            names["matrix"] = BROKEN.values[""] if BROKEN in axes else values
        suffix = "".join(f"-{axis}-{slug(value)}" for axis, value in labels.items() if axis)
        return Cell(template.name + suffix, template, labels, self._scope(_Context(names)), seed)

    def _stage_axes(self, name: str, node: Node | None, context: _Context) -> tuple[Axis, ...]:
        """Return the axes around a stage and its own; `matrix: none` leaves those around out, `{axis: none}` one."""
        if node is None:
            return context.axes
        if is_none(node):
            return ()
        what = f"stage {name!r}, "
        around, node = keep_axes(node, context.axes, what, self._problems)
        if node is None:
            return (*around,)
        own = self._axes(node, context, what)
        for axis in own:
            if axis is not BROKEN and any(axis.name == outer.name for outer in around):
                self._problems.add(
                    node.value[axis.name].where, f"stage {name!r}, matrix: axis {axis.name!r} already comes from around"
                )
        return (*around, *own)

    def _axes(self, node: Node, context: _Context, what: str = "") -> tuple[Axis, ...]:
        return read_axes(self._resolver.resolve(node, self._scope(context)), what, self._problems)

    def _scope(self, context: _Context) -> Scope:
        missing = {
            "matrix": "there is no matrix here that 'matrix' could refer to",
            "round": "'round' exists inside of a repeat only",
            "env": "environment variables are not read by recipes; use a parameter and --set",
        }
        return Scope(context.names, missing)
