"""Wiring of a sweep: rounds, rungs and the best trial become stages that read what trials measured.

For every round but the first of TPE, `sweep-draw-<round>` draws parameters; for every rung and round,
`sweep-rung-<rung>-<round>` says which trials go on; `sweep` compares all trials. They read metrics from the run's
ledger, and trials get parameters and conditions from them, so that engines see plain stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.contract.job import Setting
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems
from pipelines.language.references import Scope, plain_node
from pipelines.recipe.connect import Connector
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.found import Source
from pipelines.recipe.grammar import metric_fits
from pipelines.recipe.sweep.reach import TRIAL
from pipelines.recipe.sweep.section import SWEEP, Sweep, Trial
from pipelines.recipe.sweep.settings import Drawn
from pipelines.recipe.unroll import Cell, Namespace, Template

Sources = list[tuple[str, str]]
"""(stage, metric) of each cell."""


def sweep_cells(sweep: Sweep, namespace: Namespace, names: Mapping[str, Any]) -> list[Cell]:
    """Return the stages that a sweep adds, without the trials; `namespace` gets the one that concludes.

    `names` are what the recipe's defaults can refer to: the parameters and the seed.
    """
    cells = []
    missing = dict.fromkeys(("matrix", "round"), "the stages of a sweep are in no matrix and no repeat")
    for name, task in _tasks(sweep):
        own = {"task": task, "objective": sweep.words.objective, "direction": sweep.words.direction}
        written = {"uses": SWEEP, "pool": "cpu", "with": {**own, "space": {}, "trials": []}}
        template = Template(name, name, plain_node(written, sweep.mark), namespace)
        cell = Cell(name, template, {}, Scope(names, missing), names["seed"])
        template.cells.append(cell)
        cells.append(cell)
    namespace.names[SWEEP] = cells[-1].template
    return cells


def _tasks(sweep: Sweep) -> Iterator[tuple[str, str]]:
    for round_ in range(1, sweep.rounds + 1):
        if round_ > 1:
            yield _draw(round_), "draw"
        for rung in range(len(sweep.words.stop)):
            yield _rung(rung, round_), "judge"
    yield SWEEP, "conclude"


def _draw(round_: int) -> str:
    return f"{SWEEP}-draw-{round_}"


def _rung(rung: int, round_: int) -> str:
    return f"{SWEEP}-rung-{rung + 1}-{round_}"


class SweepWiring:
    """Connects the stages of a sweep with the trials' stages."""

    def __init__(
        self, sweep: Sweep, drafts: Mapping[str, StageDraft], connector: Connector, drawn: Drawn, problems: Problems
    ) -> None:
        self._sweep, self._drafts, self._connector = sweep, drafts, connector
        self._drawn, self._problems = drawn, problems
        self._values: dict[int, Sources] = {}
        self._rungs: list[dict[int, Sources]] = []

    def connect(self) -> None:
        """Fill in settings, conditions and order; mistakes are noted."""
        words = self._sweep.words
        place = self._sweep.node.at(("maximize" if words.maximize else "minimize",))
        before = len(self._problems)
        self._values = self._measured(words.objective, place)
        for index, rung in enumerate(words.stop):
            self._rungs.append(self._measured(rung.at, self._sweep.node.at(("stop", index, "at"))))
        if len(self._problems) > before:
            return
        if words.on_failure == "skip":
            for draft in self._drafts.values():
                if TRIAL in draft.cell.labels and "on_failure" not in draft.words.model_fields_set:
                    draft.on_failure = "skip"
        for name, task in _tasks(self._sweep):
            self._fill(self._drafts[name], task)
        for trial in self._sweep.trials:
            cells = [draft for draft in self._drafts.values() if draft.cell.labels.get(TRIAL) == trial.number]
            if trial.values is None:
                self._draw(trial, cells)
            self._stop(trial, cells)

    def _measured(self, text: str, node: Node) -> dict[int, Sources]:
        """Return trial -> the cells that measure a stage.metric in it."""
        found: dict[int, Sources] = {}
        template = self._drafts[SWEEP].cell.template
        for trial in self._sweep.trials:
            cell = Cell(SWEEP, template, {TRIAL: trial.number}, Scope({}, {}), 0)
            sources = self._connector.follow(Node(text, node.mark), cell)
            if sources is None:
                return {}
            if not isinstance(sources, list) or not all(self._fits(source, text, node) for source in sources):
                if not isinstance(sources, list):
                    self._problems.add(node.mark, f"sweep: {text!r} is no metric of one stage: expected stage.metric")
                return {}
            found[trial.number] = [(source.cell.name, source.port) for source in sources]
        return found

    def _fits(self, source: Source, text: str, node: Node) -> bool:
        draft = self._drafts[source.cell.name]
        if TRIAL not in source.cell.labels:
            self._problems.add(node.mark, f"sweep: {text!r} is the same in all trials: no swept parameter reaches it")
            return False
        known = draft.component.known_metrics(draft.config) if draft.component is not None else {}
        if known and not any(metric_fits(source.port, one) for one in known):
            self._problems.unknown(node.mark, f"metric of {source.cell.template.path!r}:", source.port, known)
            return False
        return True

    def _fill(self, draft: StageDraft, task: str) -> None:
        """Give a stage of the sweep its trials, and where their numbers come from."""
        round_ = int(draft.cell.name.rpartition("-")[2]) if task != "conclude" else self._sweep.rounds
        own = tuple(trial.number for trial in self._sweep.trials if trial.round == round_)
        past = [trial for trial in self._sweep.trials if trial.round <= round_ - (task == "draw")]
        params = draft.params
        params["sampler"] = self._sweep.words.sampler
        params["space"] = {name: _dimension(dimension) for name, dimension in self._sweep.space.items()}
        params["rungs"] = [
            {"metric": rung.at} | rung.model_dump(exclude={"at"}, exclude_none=True) for rung in self._sweep.words.stop
        ]
        if task == "draw":
            params["draw"] = list(own)
        if task == "judge":
            params["judge"] = list(own)
            params["rung"] = rung = int(draft.cell.name.split("-")[2]) - 1
        params["trials"] = [self._trial(draft, trial, index) for index, trial in enumerate(past)]
        for index, trial in enumerate(past):
            place = ("trials", index)
            if task == "conclude":
                self._read_failures(draft, trial, index)
            if task != "judge":
                self._read(draft, self._values[trial.number], (*place, "values"))
            for position, measured in enumerate(self._rungs):
                if task != "judge" or position == rung:
                    self._read(draft, measured[trial.number], (*place, "rungs", position))
        assert draft.component is not None
        draft.config = draft.component.params.model_validate(params)

    def _trial(self, draft: StageDraft, trial: Trial, index: int) -> dict[str, Any]:
        """Return a trial with empty places for what it measures; drawn parameters are settings, too."""
        values: dict[str, Any] = dict(trial.values or {})
        if trial.values is None:
            for name, dimension in self._sweep.space.items():
                choices = list(dimension) if isinstance(dimension, list) else None
                whole = not isinstance(dimension, list) and dimension.whole
                values[name] = dimension[0] if isinstance(dimension, list) else dimension.low
                path: list[str | int] = ["trials", index, "params", name]
                self._set(draft, path, _draw(trial.round), f"{name}_{trial.number}", choices=choices, whole=whole)
        return {
            "number": trial.number,
            "params": values,
            "values": [None] * len(self._values[trial.number]),
            "rungs": [[None] * len(measured[trial.number]) for measured in self._rungs],
        }

    def _read(self, draft: StageDraft, sources: Sources, place: tuple[str | int, ...]) -> None:
        for position, (stage, metric) in enumerate(sources):
            self._set(draft, [*place, position], stage, metric, or_none=True)

    def _read_failures(self, draft: StageDraft, trial: Trial, index: int) -> None:
        """Tell the stage that concludes which stages of a trial failed, where the run goes on without them."""
        own = [other for other in self._drafts.values() if other.cell.labels.get(TRIAL) == trial.number]
        own = [other for other in own if (other.on_failure or other.words.on_failure) == "skip"]
        before = [other.cell.name for other in own if SWEEP not in self._behind([other.cell.name])]
        if before:
            draft.params["trials"][index]["failures"] = [None] * len(before)
        for position, name in enumerate(before):
            self._set(draft, ["trials", index, "failures", position], name, "", or_none=True, failure=True)

    def _set(self, draft: StageDraft, path: list[str | int], stage: str, metric: str, **how: Any) -> None:
        draft.settings.append(Setting(path=path, stage=stage, metric=metric, **how))
        draft.needs.setdefault(stage, self._sweep.mark)

    def _draw(self, trial: Trial, cells: list[StageDraft]) -> None:
        for draft in cells:
            if draft.component is None or draft.config is None:
                continue
            for setting in self._drawn.settings(draft, _draw(trial.round), trial.number):
                draft.settings.append(setting)
                draft.needs.setdefault(setting.stage, self._sweep.mark)

    def _stop(self, trial: Trial, cells: list[StageDraft]) -> None:
        """Give the stages of a trial the condition that its last rung before them lets it go on.

        A rung cannot stop what its own metric needs, nor what an earlier rung's does.
        """
        gates: dict[str, str] = {}
        needed: set[str] = set()
        for position, measured in enumerate(self._rungs):
            needed |= self._behind([stage for stage, _ in measured[trial.number]])
            judge = _rung(position, trial.round)
            gates |= {draft.cell.name: judge for draft in cells if draft.cell.name not in needed}
        for name, judge in gates.items():
            draft = self._drafts[name]
            condition = f"{judge}.goes_on_{trial.number} >= 1"
            draft.when = f"({draft.when}) and {condition}" if draft.when else condition
            draft.needs.setdefault(judge, self._sweep.mark)
            draft.conditions.add(judge)

    def _behind(self, names: list[str]) -> set[str]:
        """Return stages and everything that they need."""
        found: set[str] = set()
        queue = [*names]
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                queue += self._drafts[name].needs
        return found


def _dimension(dimension: Any) -> dict[str, Any]:
    """Return a dimension as the component takes it."""
    if isinstance(dimension, list):
        return {"choices": dimension}
    found = {"low": float(dimension.low), "high": float(dimension.high), "log": dimension.log, "whole": dimension.whole}
    return found | ({"step": float(dimension.step)} if dimension.step is not None else {})
