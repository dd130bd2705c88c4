"""Recipes: loaded, overridden, unrolled and checked. The result is valid, or every mistake is reported at its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from components.contract.artifacts import hash_parts
from components.contract.endpoints import Endpoint
from components.contract.job import Budget
from components.contract.operator_packages.code import CodeTree
from components.contract.uploaded import Upload
from pipelines.language.document import Document
from pipelines.language.find import find_recipe
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems
from pipelines.language.references import Resolver
from pipelines.recipe.audits import with_audits
from pipelines.recipe.budget import read_budget
from pipelines.recipe.carried import Carried
from pipelines.recipe.cells import fill_cells
from pipelines.recipe.conditions import Conditions
from pipelines.recipe.connect import Connector
from pipelines.recipe.draft import StageDraft, StageReader
from pipelines.recipe.endpoints import Endpoints, load_endpoints
from pipelines.recipe.fork import ForkPoint, read_fork
from pipelines.recipe.graph import leave_out, refuse_blind_gates, refuse_cycles
from pipelines.recipe.hallmark import Hallmark, read_hallmark
from pipelines.recipe.head import read_head
from pipelines.recipe.layers import apply_overrides, merge_layers, override_text, read_layers
from pipelines.recipe.licenses import read_licenses
from pipelines.recipe.moved import read_moved
from pipelines.recipe.on_backends import check_backends
from pipelines.recipe.on_models import check_models
from pipelines.recipe.operator_files import OperatorFiles
from pipelines.recipe.packages import read_packages
from pipelines.recipe.parameters import Parameter, describe_parameters, read_parameters
from pipelines.recipe.pools import Pool, load_pools
from pipelines.recipe.rows import check_rows
from pipelines.recipe.schedule.section import Schedule, read_schedule
from pipelines.recipe.shards import with_shards
from pipelines.recipe.sources import Removal
from pipelines.recipe.stage import LeftOut, Stage, in_order, stage_of
from pipelines.recipe.sweep.reach import TRIAL
from pipelines.recipe.sweep.section import Sweep, read_sweep, trials_of
from pipelines.recipe.sweep.settings import Drawn
from pipelines.recipe.sweep.wire import SweepWiring, sweep_cells
from pipelines.recipe.system import SystemWords, read_system
from pipelines.recipe.unroll import Cell, Group, Unroller
from pipelines.recipe.wiring import Wiring


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
    """In topological order, ties in file order."""
    left_out: tuple[LeftOut, ...]
    hallmark: Hallmark | None = field(default=None, repr=False)
    """Its claim about the arms of its matrix, for `posttrain reproduce`."""
    system: SystemWords | None = field(default=None, repr=False)
    """The published method that this recipe declares, if any."""
    schedule: Schedule | None = None
    """When its runs start by themselves, if they do."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict, repr=False)
    """Endpoints that its stages name."""
    files: OperatorFiles | None = field(default=None, repr=False)
    """The operator files that its stages name."""
    sweep: Sweep | None = field(default=None, repr=False)
    """Its search for the best parameters, if any."""
    fork: ForkPoint | None = None
    """Where its runs part from another run, if they do."""
    moved: str | None = None
    """The run that its run goes on for, if any."""
    budget: Budget | None = None
    """What its run may spend."""
    uploads: tuple[Upload, ...] = ()
    """Local data that it names, and that the store has."""
    without: tuple[str, ...] = ()
    """The sources that are left out of its stages."""

    @property
    def params(self) -> dict[str, Any]:
        """Return the values of the parameters."""
        return {parameter.name: parameter.value for parameter in self.parameters}

    @property
    def trees(self) -> dict[str, CodeTree]:
        """Return the packages that its `code` names, by what it writes."""
        return self.files.packages.trees if self.files else {}

    @property
    def text(self) -> str:
        """Return the recipe file's own text."""
        return self.documents[0].text

    @property
    def digest(self) -> str:
        """Return the SHA-256 hex of all the recipe's files, with its operators' files, and of its overrides."""
        codes = sorted({code.digest for stage in self.stages for code in stage.code})
        return hash_parts(*(document.text for document in self.documents), *self.overrides, *codes)


def load_recipe(
    name_or_path: str,
    overrides: Sequence[str] = (),
    *,
    seed: int | None = None,
    pools: Mapping[str, Pool] | None = None,
    endpoints: Mapping[str, Endpoint] | None = None,
    carried: Carried | None = None,
    whole: bool = False,
) -> Recipe:
    """Return the recipe with "key=value" overrides applied, unrolled and checked.

    Raises InputError when it is not found, and RecipeErrors with all of its problems. `pools` and `endpoints`
    are those of infra/pools.yaml unless given; the user's code is read where it is named unless it is `carried`. With
    `whole`, stages that `when` leaves out before the run are kept, for an engine whose graph must hold every stage that
    any parameters can request.
    """
    if seed is not None:
        overrides = (*overrides, override_text("seed", seed))
    documents = read_layers(find_recipe(name_or_path))
    problems = Problems()
    merged = merge_layers(documents)
    system = read_system(documents[0].root, merged, problems)
    root = apply_overrides(merged, overrides, problems)
    known = Endpoints(load_endpoints if endpoints is None else lambda: endpoints, problems)
    pools = load_pools() if pools is None else pools
    folders: dict[str, Path] = {document.label: document.path.parent for document in documents}
    data_folders = carried.folders_of(list(folders)) if carried and carried.folders else folders
    packages = read_packages(root, folders, problems, carried.trees if carried else None)
    files = OperatorFiles(folders, problems, carried.files if carried else None, packages)
    recipe = _Reader(documents, root, tuple(overrides), pools, known, files, problems, data_folders).read(whole)
    return replace(recipe, system=system, uploads=tuple(carried.uploads) if carried else ())


class _Reader:
    """Reads one recipe; the order of its steps is the order of `read`."""

    def __init__(
        self,
        documents: list[Document],
        root: Node,
        overrides: tuple[str, ...],
        pools: Mapping[str, Pool],
        endpoints: Endpoints,
        files: OperatorFiles,
        problems: Problems,
        data_folders: Mapping[str, Path],
    ) -> None:
        self._files = files
        self._documents = documents
        self._root = root
        self._overrides = overrides
        self._pools = pools
        self._endpoints = endpoints
        self._problems = problems
        self._resolver = Resolver(problems)
        self._folders = {document.label: document.path.parent for document in documents}
        self._data_folders = data_folders

    def read(self, whole: bool = False) -> Recipe:
        head = read_head(self._root, self._problems)
        values = read_parameters(self._root.child("params"), head.seed, self._resolver, self._problems)
        parameters = describe_parameters(self._root.child("params"), values, self._problems)
        sweep = read_sweep(self._root, values, head.seed, self._resolver, self._problems)
        trials = trials_of(sweep) if sweep else None
        unroller = Unroller(values, head.seed, self._resolver, self._problems, trials)
        cells = unroller.unroll(self._root.child("stages"), self._root.child("matrix"))
        if not cells and not len(self._problems):
            self._problems.add(self._root.mark, "'stages' is missing or empty; expected 'name: {uses: ...}' lines")
        cells += sweep_cells(sweep, unroller.root, {"params": values, "seed": head.seed}) if sweep else []
        removal = Removal(self._root, self._problems)
        drafts, connector = self._drafts(cells, unroller.groups, removal, sweeps=sweep is not None)
        if sweep is not None and not len(self._problems):
            drawn = Drawn(sweep, values, self._root.child("defaults"), self._problems)
            SweepWiring(sweep, drafts, connector, drawn, self._problems).connect()
        names = {"params": values, "seed": head.seed}
        schedule = read_schedule(self._root, names, self._folders, self._resolver, self._problems)
        hallmark = read_hallmark(self._root.child("hallmark"), drafts, connector, self._resolver, self._problems, names)
        read_licenses(self._root, drafts, self._problems)
        drafts = with_audits(with_shards(drafts, self._problems), self._problems)
        refuse_cycles(drafts, self._problems)
        check_rows(drafts, self._problems)
        check_backends(drafts, self._pools, self._problems)
        check_models(drafts, self._problems)
        fork = read_fork(self._root, drafts, self._problems)
        moved = read_moved(self._root, self._problems)
        used = [draft.words.pool for draft in drafts.values()]
        budget = read_budget(self._root, self._pools, used, self._problems)
        self._problems.stop()
        left_out = {} if whole else leave_out(drafts)
        refuse_blind_gates(drafts, left_out, self._problems)
        self._problems.stop()
        return Recipe(
            name=head.name,
            summary=head.summary,
            seed=head.seed,
            path=self._documents[0].path,
            documents=tuple(self._documents),
            overrides=self._overrides,
            parameters=parameters,
            pools=self._pools,
            stages=in_order(stage_of(draft, left_out) for draft in drafts.values() if draft.cell.name not in left_out),
            left_out=tuple(LeftOut(name, reason) for name, reason in left_out.items()),
            hallmark=hallmark,
            schedule=schedule,
            endpoints=self._endpoints.named,
            files=self._files,
            sweep=sweep,
            fork=fork,
            moved=moved,
            budget=budget,
            without=tuple(removal.names),
        )

    def _drafts(
        self, cells: Iterable[Cell], groups: Iterable[Group], removal: Removal, *, sweeps: bool
    ) -> tuple[dict[str, StageDraft], Connector]:
        connector = Connector(self._resolver, self._problems, self._data_folders)
        defaults = self._root.child("defaults")
        reader = StageReader(
            defaults, self._pools, self._data_folders, self._files, self._resolver, self._problems, removal
        )
        connector.trial_axis = TRIAL if sweeps else ""
        drafts = {cell.name: reader.read(cell) for cell in cells}
        removal.check()
        connector.outputs = {d.cell.template.path: list(d.component.outputs) for d in drafts.values() if d.component}
        wiring = Wiring(drafts, connector, self._endpoints, self._problems)
        conditions = Conditions(drafts, connector, self._resolver, self._problems)
        for draft in drafts.values():
            conditions.read(draft)
            wiring.connect(draft)
        for draft in drafts.values():
            fill_cells(draft, drafts, self._problems)
        for group in groups:
            connector.check_group(group)
        return drafts, connector
