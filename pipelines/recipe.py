"""Recipes: loaded, overridden, unrolled and checked. What comes out is right, or every mistake is named at its line."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from components.contract.artifacts import hash_parts
from components.contract.backends import Backends
from components.contract.component import Component, Params
from components.contract.job import Approval, Expectation, Retry, StageRef, UriRef
from components.contract.registry import components
from pipelines.conditions import Conditions
from pipelines.connect import Connector
from pipelines.document import Document
from pipelines.draft import Draft, StageReader
from pipelines.find import find_recipe, is_name
from pipelines.grammar import DEFAULT_KEYS, MAX_SEED, MAX_SUMMARY_LENGTH, RECIPE_KEYS, trigger
from pipelines.graph import leave_out, refuse_cycles
from pipelines.hallmark import Hallmark, read_hallmark
from pipelines.layers import apply_overrides, merge_layers, override_text, read_layers
from pipelines.matrix import Label
from pipelines.nodes import Node
from pipelines.parameters import Parameter, describe_parameters, read_parameters
from pipelines.pools import Pool, load_pools
from pipelines.problems import Mark, Problems, shown
from pipelines.references import Resolver
from pipelines.unroll import Cell, Group, Unroller
from pipelines.wiring import Wiring


@dataclass(frozen=True)
class Stage:
    """One node of the unrolled graph, checked."""

    name: str
    component: Component
    params: dict[str, Any]
    """As written, without references; what the job is given."""
    config: Params
    """The same, validated, with the component's defaults."""
    inputs: dict[str, list[StageRef | UriRef]]
    seed: int
    pool: str
    backend: Backends | None
    """What generates and trains in the place of the pool's choice."""
    retry: Retry
    timeout_seconds: float | None
    when: str | None
    gate: list[str]
    expect: list[Expectation]
    approve: Approval | None
    after: list[str]
    labels: dict[str, Label]
    group: str | None
    register_as: str | None
    register_aliases: list[str]
    summary: str
    mark: Mark


@dataclass(frozen=True)
class LeftOut:
    """A stage that will not run, as is known before the run."""

    name: str
    reason: str


@dataclass(frozen=True)
class Recipe:
    """A recipe that can be planned."""

    name: str
    summary: str
    seed: int
    path: Path
    documents: tuple[Document, ...] = field(repr=False)
    """The file and the parents that it extends, the file first."""
    overrides: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    pools: Mapping[str, Pool] = field(repr=False)
    stages: tuple[Stage, ...]
    """In topological order, else in the order of the file."""
    left_out: tuple[LeftOut, ...]
    hallmark: Hallmark | None = field(default=None, repr=False)
    """What it claims of the arms of its matrix, for `posttrain reproduce`."""

    triggered_by: tuple[str, ...] = ()
    """Aliases of registered models, as "model@alias"; Airflow starts the recipe when one of them moves."""

    @property
    def params(self) -> dict[str, Any]:
        """Return the values of the parameters."""
        return {parameter.name: parameter.value for parameter in self.parameters}

    @property
    def text(self) -> str:
        """Return the recipe file's own text."""
        return self.documents[0].text

    @property
    def digest(self) -> str:
        """Return the SHA-256 hex of all files that the recipe consists of, and of its overrides."""
        return hash_parts(*(document.text for document in self.documents), *self.overrides)


def load_recipe(
    name_or_path: str,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    pools: Mapping[str, Pool] | None = None,
    whole: bool = False,
) -> Recipe:
    """Return the recipe with "key=value" overrides applied, unrolled and checked.

    Raises InputError when it is not found, and RecipeErrors with all of its problems. `pools` are those of
    infra/pools.yaml unless given. With `whole`, stages that `when` leaves out before the run are kept, for an engine
    whose graph must hold all that some parameters may ask for.
    """
    if seed is not None:
        overrides = (*overrides, override_text("seed", seed))
    documents = read_layers(find_recipe(name_or_path))
    problems = Problems()
    root = apply_overrides(merge_layers(documents), overrides, problems)
    return _Reader(documents, root, tuple(overrides), load_pools() if pools is None else pools, problems).read(whole)


class _Reader:
    """Reads one recipe; the order of its steps is the order of `read`."""

    def __init__(
        self,
        documents: list[Document],
        root: Node,
        overrides: tuple[str, ...],
        pools: Mapping[str, Pool],
        problems: Problems,
    ) -> None:
        self._documents = documents
        self._root = root
        self._overrides = overrides
        self._pools = pools
        self._problems = problems
        self._resolver = Resolver(problems)

    def read(self, whole: bool = False) -> Recipe:
        name, summary, seed = self._head()
        triggers = self._triggers(self._root.child("triggered_by"))
        values = read_parameters(self._root.child("params"), seed, self._resolver, self._problems)
        parameters = describe_parameters(self._root.child("params"), values, self._problems)
        unroller = Unroller(values, seed, self._resolver, self._problems)
        cells = unroller.unroll(self._root.child("stages"), self._root.child("matrix"))
        if not cells and not len(self._problems):
            self._problems.add(self._root.mark, "'stages' is missing or empty; expected 'name: {uses: ...}' lines")
        drafts, connector = self._drafts(cells, unroller.groups)
        names = {"params": values, "seed": seed}
        hallmark = read_hallmark(self._root.child("hallmark"), drafts, connector, self._resolver, self._problems, names)
        refuse_cycles(drafts, self._problems)
        self._problems.stop()
        left_out = {} if whole else leave_out(drafts)
        return Recipe(
            name=name,
            summary=summary,
            seed=seed,
            path=self._documents[0].path,
            documents=tuple(self._documents),
            overrides=self._overrides,
            parameters=parameters,
            pools=self._pools,
            stages=_in_order(_stage(draft, left_out) for draft in drafts.values() if draft.cell.name not in left_out),
            left_out=tuple(LeftOut(name, reason) for name, reason in left_out.items()),
            hallmark=hallmark,
            triggered_by=triggers,
        )

    def _head(self) -> tuple[str, str, int]:
        root = self._root
        strange = [key for key in root.value if key not in RECIPE_KEYS]
        for key in strange:
            self._problems.unknown(root.value[key].where, "key of a recipe:", key, RECIPE_KEYS)
        name, summary, seed = (root.child(key) for key in ("name", "summary", "seed"))
        if name is None:
            if not strange:
                self._problems.add(root.mark, "'name' is missing: what is the recipe called?")
        elif not isinstance(name.value, str) or not is_name(name.value):
            expected = "expected a name (a-z first, then a-z, 0-9, '-', '_'; at most 63)"
            self._problems.add(name.mark, f"name: got {shown(name.plain())}, {expected}")
        if summary is not None and not (isinstance(summary.value, str) and len(summary.value) <= MAX_SUMMARY_LENGTH):
            self._problems.add(
                summary.mark, f"summary: got {shown(summary.plain())}, expected text of at most {MAX_SUMMARY_LENGTH}"
            )
        if seed is not None and not (type(seed.value) is int and 0 <= seed.value <= MAX_SEED):
            self._problems.add(seed.mark, f"seed: got {shown(seed.plain())}, expected a whole number 0 to {MAX_SEED}")
            seed = None
        self._check_defaults(root.child("defaults"))
        return str(name and name.value), str(summary.value if summary else ""), seed.value if seed else 0

    def _triggers(self, node: Node | None) -> tuple[str, ...]:
        found: list[str] = []
        for item in node.value if node and isinstance(node.value, list) else [node] if node and node.value else []:
            try:
                found.append(trigger(item.value))
            except ValueError as error:
                self._problems.add(item.mark, f"triggered_by: got {shown(item.plain())}, {error}")
        return tuple(found)

    def _check_defaults(self, node: Node | None) -> None:
        if node is None or node.value is None:
            return
        if not isinstance(node.value, dict):
            self._problems.add(node.mark, f"defaults: got {shown(node.plain())}, expected 'pool: ...' and more")
            return
        for key, child in node.value.items():
            if key not in DEFAULT_KEYS:
                self._problems.unknown(child.where, "key of defaults:", key, DEFAULT_KEYS)
        params = node.child("with")
        if params is None or params.value is None:
            return
        if not isinstance(params.value, dict):
            expected = "expected 'component: {...}' lines"
            self._problems.add(params.mark, f"defaults.with: got {shown(params.plain())}, {expected}")
            return
        for key, child in params.value.items():
            if key not in components():
                self._problems.unknown(child.where, "component in defaults.with:", key, components().names())
            elif not isinstance(child.value, dict):
                expected = "expected 'parameter: value' lines"
                self._problems.add(child.mark, f"defaults.with.{key}: got {shown(child.plain())}, {expected}")

    def _drafts(self, cells: Iterable[Cell], groups: Iterable[Group]) -> tuple[dict[str, Draft], Connector]:
        folders = {document.label: document.path.parent for document in self._documents}
        connector = Connector(self._resolver, self._problems, folders)
        reader = StageReader(self._root.child("defaults"), self._pools, self._resolver, self._problems)
        drafts = {cell.name: reader.read(cell) for cell in cells}
        connector.outputs = {d.cell.template.path: list(d.component.outputs) for d in drafts.values() if d.component}
        wiring = Wiring(drafts, connector, self._problems)
        conditions = Conditions(drafts, connector, self._resolver, self._problems)
        for draft in drafts.values():
            conditions.read(draft)
            wiring.connect(draft)
        for group in groups:
            connector.check_group(group)
        return drafts, connector


def _stage(draft: Draft, left_out: Mapping[str, str]) -> Stage:
    assert draft.component is not None and draft.config is not None
    words, cell = draft.words, draft.cell
    kept = {
        port: [r for r in references if not (isinstance(r, StageRef) and r.stage in left_out)]
        for port, references in draft.inputs.items()
    }
    labels: dict[str, Label] = {**cell.template.rounds, **cell.labels}
    return Stage(
        name=cell.name,
        component=draft.component,
        params=draft.params,
        config=draft.config,
        inputs={port: references for port, references in kept.items() if references},
        seed=cell.seed if words.seed is None else words.seed,
        pool=words.pool,
        backend=words.backend,
        retry=Retry(retries=words.retries, backoff_seconds=words.backoff),
        timeout_seconds=words.timeout,
        when=draft.when,
        gate=draft.gate,
        expect=[Expectation(port=e.port, type=e.type, kwargs=e.kwargs) for e in words.expect],
        approve=words.approve
        and Approval(
            message=words.approve.message,
            timeout_seconds=words.approve.timeout,
            on_timeout=words.approve.on_timeout,
        ),
        after=[name for name in draft.needs if name not in left_out],
        labels=labels,
        group=cell.template.path if labels else None,
        register_as=words.registration.name if words.registration else None,
        register_aliases=words.registration.aliases if words.registration else ["candidate"],
        summary=words.summary,
        mark=draft.node.where,
    )


def _in_order(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return stages topologically sorted; of those that are ready, the one that the file has first comes first."""
    listed = list(stages)
    position = {stage.name: index for index, stage in enumerate(listed)}
    sorter = TopologicalSorter({stage.name: stage.after for stage in listed})
    sorter.prepare()
    ready: list[int] = []
    ordered: list[Stage] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, position[name])
        stage = listed[heapq.heappop(ready)]
        ordered.append(stage)
        sorter.done(stage.name)
    return tuple(ordered)
