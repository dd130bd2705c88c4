"""Drafts: one stage checked without the others. Its component, its keys and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contract.alarms import OnAlarm
from components.contract.component import Component
from components.contract.errors import InputError, UnknownName
from components.contract.job import InputRef, OnFailure, Setting
from components.contract.licenses import LicenseGate
from components.contract.operator_files.library import UserCode
from components.contract.operators import Keys
from components.contract.params import Params
from components.contract.registry import components
from pipelines.language.nodes import UNKNOWN, Node, mapping
from pipelines.language.problems import Mark, Problems, shown
from pipelines.language.references import Resolver
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.alarms import check_alarms, written_names
from pipelines.recipe.grammar import DEFAULT_KEYS, SPOT_RETRIES, StageWords
from pipelines.recipe.keeping import kept_every, reaction
from pipelines.recipe.layers import merge
from pipelines.recipe.operator_files import OperatorFiles, codes_in
from pipelines.recipe.operators import anchor_paths, check_operators
from pipelines.recipe.pools import Pool
from pipelines.recipe.sources import Removal
from pipelines.recipe.unroll import Cell


@dataclass
class StageDraft:
    """A stage as far as it was readable; `component` is None if a problem was noted."""

    cell: Cell
    node: Node
    words: StageWords
    component: Component | None
    params: dict[str, Any] = field(default_factory=dict)
    config: Params | None = None
    inputs: dict[str, list[InputRef]] = field(default_factory=dict)
    on_failure: OnFailure | None = None
    """What the recipe's sweep says of its trials; None where the stage's own word holds."""
    settings: list[Setting] = field(default_factory=list)
    """Parameters that stages of a sweep set in the run."""
    given: Node | None = None
    """The parameters as the recipe gives them, its defaults included."""
    when: str | None = None
    gate: list[str] = field(default_factory=list)
    needs: dict[str, Mark] = field(default_factory=dict)
    """Stages that must end first, and the location that requires it."""
    conditions: set[str] = field(default_factory=set)
    """Stages whose metrics `when` looks at."""
    gated_by: dict[str, Mark] = field(default_factory=dict)
    """Other stages whose metrics `gate` looks at, and where."""
    code: list[UserCode] = field(default_factory=list)
    """The user's files and packages with operators that `params` name."""
    written: dict[str, str] = field(default_factory=dict)
    """Dotted path of a parameter that alarms mention -> its name for --set."""
    operators: dict[Keys, Mark] = field(default_factory=dict)
    """Where the operators stand, by their path in `params`."""
    keep_partial: int | None = None
    on_alarm: OnAlarm = "warn"
    """Steps between the checkpoints that outlive the stage."""
    deterministic: bool = False
    """Whether the stage, or its pool, asks for bytes that repeat."""
    licenses: LicenseGate | None = None
    """What its end has to ask about licences."""
    shard_of: str = ""
    """The stage that this one is a shard of."""
    included: bool = True
    """False if a condition known before the run leaves the stage out."""


class StageReader:
    """Reads the cells of one recipe into drafts."""

    def __init__(
        self,
        defaults: Node | None,
        pools: Mapping[str, Pool],
        folders: Mapping[str, Path],
        files: OperatorFiles,
        resolver: Resolver,
        problems: Problems,
        removal: Removal,
    ) -> None:
        """`folders` are those of the recipe's files, by label; `removal` leaves sources out."""
        self._defaults = defaults
        self._pools = pools
        self._folders = folders
        self._files = files
        self._resolver = resolver
        self._problems = problems
        self._removal = removal

    def read(self, cell: Cell) -> StageDraft:
        """Return the draft of a stage, without looking at the other stages."""
        node = self._resolver.resolve(_without(cell.template.node, "matrix"), cell.scope)
        defaults = self._defaults_for(cell)
        draft = StageDraft(cell, node, self._words(node, defaults, cell), self._component(node))
        if pool := self._pools.get(draft.words.pool):
            draft.deterministic = pool.backends(draft.words.backend).deterministic
        if draft.component is not None:
            node = draft.given = self._params(draft, draft.component, defaults)
            draft.component = draft.component.formed(draft.config)
            self._check_optimizer(draft, node)
            path = cell.template.path
            check_alarms(path, draft.node, draft.words.alarms, draft.component, self._problems)
            draft.written = written_names(path, node, draft.component)
            every = draft.words.keep_partial
            draft.keep_partial = kept_every(path, draft.node, every, draft.component, draft.config, self._problems)
            keeps = draft.keep_partial is not None
            draft.on_alarm = reaction(
                path, draft.node, draft.words, draft.component, pool, keeps=keeps, problems=self._problems
            )
        return draft

    def _component(self, node: Node) -> Component | None:
        uses = node.value["uses"]
        if uses.value is UNKNOWN:
            return None
        if not isinstance(uses.value, str):
            self._problems.add(uses.mark, f"uses: got {shown(uses.plain())}, expected the name of a component")
            return None
        try:
            component: Component = components().get(uses.value)
            return component
        except UnknownName as error:
            self._problems.unknown(uses.mark, "component", uses.value, error.known)
        except InputError as error:
            self._problems.add(uses.mark, str(error))
        return None

    def _defaults_for(self, cell: Cell) -> Node:
        """Return the recipe's defaults for this cell, without invalid ones."""
        if self._defaults is None or not isinstance(self._defaults.value, dict):
            return mapping({}, cell.template.node.mark)
        defaults = self._resolver.resolve(self._defaults, cell.scope)
        strange = [key for key in defaults.value if key not in DEFAULT_KEYS]
        good = self._valid(_without(defaults, "with", *strange), "defaults.")
        return mapping({**good.value, **_only(defaults, "with").value}, defaults.mark)

    def _words(self, stage: Node, defaults: Node, cell: Cell) -> StageWords:
        own = self._valid(_without(stage, "uses", "in", "with"), f"stage {cell.template.path!r}, ")
        node = merge(_without(defaults, "with"), own)
        words = StageWords.model_validate(node.plain())
        if words.pool not in self._pools:
            pool = node.child("pool")
            self._problems.unknown(pool.mark if pool else stage.where, "pool", words.pool, sorted(self._pools))
        elif words.backend and (reason := self._backend_refusal(words)):
            backend = node.child("backend")
            what = f"stage {cell.template.path!r}, backend on pool {words.pool!r}: {reason}"
            self._problems.add(backend.mark if backend else stage.where, what)
        elif self._pools[words.pool].spot and "retries" not in words.model_fields_set:
            return words.model_copy(update={"retries": SPOT_RETRIES})
        return words

    def _backend_refusal(self, words: StageWords) -> str | None:
        pool = self._pools[words.pool]
        return pool.backends(words.backend).refusal(pool.gpus, pool.nodes)

    def _check_optimizer(self, draft: StageDraft, node: Node) -> None:
        """Note an optimiser that the trainer of the stage's pool does not support: it would fail on the paid node."""
        pool = self._pools.get(draft.words.pool)
        if pool is None or draft.config is None or draft.component is None or "trainer" not in draft.component.backends:
            return
        optimizer = getattr(draft.config, "optimizer", None)  # other ways of training have no such parameter
        reason = optimizer and pool.backends(draft.words.backend).optimizer_refusal(optimizer.name)
        if reason:
            where = node.at(("optimizer", "name"))
            what = f"stage {draft.cell.template.path!r}, with.optimizer.name on pool {draft.words.pool!r}: {reason}"
            self._problems.add(where.mark if where is not node else draft.node.where, what)

    def _valid(self, node: Node, what: str) -> Node:
        """Return the valid keys of a stage or of the defaults, noting invalid ones."""
        node = _without(node, *(key for key, child in node.value.items() if child.holds_unknown()))
        try:
            StageWords.model_validate(node.plain())
        except ValidationError as error:
            add_schema_errors(self._problems, error, node, what=what, schema=StageWords)
            return _without(node, *(str(entry["loc"][0]) for entry in error.errors()))
        return node

    def _params(self, draft: StageDraft, component: Component, defaults: Node) -> Node:
        """Read the stage's parameters into its draft; return the node that holds them."""
        schema = component.params
        what = f"stage {draft.cell.template.path!r}, with."
        node = draft.node.child("with") or mapping({}, draft.node.where)
        if node.value is None:
            node = mapping({}, node.mark, node.key)
        common = defaults.child("with")
        common = common.child(component.name) if common is not None else None
        if common is not None and isinstance(common.value, dict):
            node = merge(common, node)
        if node.value is UNKNOWN:
            return node
        if not isinstance(node.value, dict):
            self._problems.add(node.mark, f"{what[:-1]}: got {shown(node.plain())}, expected 'parameter: value' lines")
            return node
        node = self._files.place(self._removal.drop(draft.cell.template.path, node))
        absent = [key for key, child in node.value.items() if child.holds_unknown()]
        node = _without(node, *absent)
        draft.params = node.plain()
        draft.code = list({code.digest: code for code in codes_in(draft.params)}.values())
        try:
            draft.config = schema.model_validate(draft.params)
        except ValidationError as error:
            add_schema_errors(self._problems, error, node, what=what, schema=schema, absent=absent)
        if draft.config is None:
            return node
        written = check_operators(draft.config, node, what, self._problems)
        draft.operators = {one.path: one.place.mark for one in written}
        if anchor_paths(written, draft.params, self._folders):
            draft.config = schema.model_validate(draft.params)
        return node


def _without(node: Node, *keys: str) -> Node:
    entries = {name: child for name, child in node.value.items() if name not in keys}
    return mapping(entries, node.mark, node.key) if len(entries) < len(node.value) else node


def _only(node: Node, *keys: str) -> Node:
    return _without(node, *(key for key in node.value if key not in keys))
