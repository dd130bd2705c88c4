"""Hallmarks: what a recipe claims of its arms, declared so that `posttrain reproduce` can measure it.

    hallmark:
      claim: Keeps pass@16 where GRPO loses it
      measures:
        pass_at_16: {value: evaluate.pass_at_16_sums, direction: higher, margin: 0.01}
      also: {pass_at_1: evaluate.pass_at_1_sums}

`value` is an expression over metrics of stages, calculated for every arm and seed of the matrix; `effect` one over the
arms, calculated for every seed. Engines ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.expressions import Expression, ExpressionError
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, meant, shown
from pipelines.language.references import Resolver, Scope
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.connect import Connector, FirstFound, several
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.grammar import MAX_SUMMARY_LENGTH, metric_fits
from pipelines.recipe.unroll import Cell

ARM, SEED = "arm", "seed"
"""The axes of the matrix along which a hallmark compares and repeats."""
METHOD, BASELINE = "method", "baseline"
DEFAULT_EFFECT = f"{METHOD} - {BASELINE}"
ALWAYS = ("seconds",)
"""Metric that every stage has: the time it took."""

Direction = Literal["higher", "lower", "same", "not_lower", "not_higher"]


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeasureWords(_Words):
    """One measured quantity."""

    value: str = Field(min_length=1)
    """Expression over stage.metric, for one arm and seed."""
    effect: str = DEFAULT_EFFECT
    """Expression over arms, for one seed."""
    direction: Direction
    """Claimed direction of the effect."""
    margin: float = Field(default=0.0, ge=0)
    """How far from 0 the effect must lie, or may lie for same, not_lower and not_higher."""


class HallmarkWords(_Words):
    """The section `hallmark` of a recipe."""

    claim: str = Field(min_length=1, max_length=MAX_SUMMARY_LENGTH)
    """One line: the expected observation."""
    catalogue: int | None = None
    """Id of the method in the catalogue of methods."""
    measures: dict[str, MeasureWords] = Field(min_length=1)
    """Deciding measures: the claim is seen if each of these is."""
    also: dict[str, str] = Field(default_factory=dict)
    """Values shown for every arm that do not affect the verdict."""


@dataclass(frozen=True)
class Measure:
    """One quantity and the source of its metrics."""

    name: str
    value: Expression
    sources: Mapping[tuple[str, int], Mapping[str, tuple[str, str]]]
    """(arm, seed) -> name in `value` -> (stage of the graph, metric)."""
    words: MeasureWords | None = None
    """None for a value that does not affect the verdict and has no effect."""

    @property
    def effect(self) -> Expression:
        """Return the expression over arms that decides."""
        assert self.words is not None
        return Expression(self.words.effect)


@dataclass(frozen=True)
class Hallmark:
    """A claim that can be measured."""

    words: HallmarkWords
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    measures: tuple[Measure, ...]
    """Deciding measures, then measures that are only shown."""


def read_hallmark(
    node: Node | None,
    drafts: Mapping[str, StageDraft],
    connector: Connector,
    resolver: Resolver,
    problems: Problems,
    names: Mapping[str, Any],
) -> Hallmark | None:
    """Return the hallmark of a recipe, checked against its stages; None if there is none or a problem was noted."""
    if node is None or node.value is None:
        return None
    missing = dict.fromkeys(("matrix", "round"), "a hallmark is about all cells of the matrix")
    node = resolver.resolve(node, Scope(names, missing))
    if node.holds_unknown():
        return None
    try:
        words = HallmarkWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="hallmark.", schema=HallmarkWords)
        return None
    cells = _cells(drafts)
    if not cells:
        problems.add(node.where, "hallmark: no stage has a matrix with the axes 'arm' and 'seed', so nothing compares")
        return None
    return _Reader(words, node, cells, drafts, connector, problems).read()


def _cells(drafts: Mapping[str, StageDraft]) -> dict[tuple[str, int], Cell]:
    """Return one cell of the graph for every arm and seed, used to resolve references for that arm and seed."""
    found: dict[tuple[str, int], Cell] = {}
    for draft in drafts.values():
        labels = draft.cell.labels
        if ARM in labels and SEED in labels and not draft.cell.template.rounds:
            kept = {ARM: labels[ARM], SEED: labels[SEED]}
            cell = Cell(draft.cell.name, draft.cell.template, kept, draft.cell.scope, draft.cell.seed)
            found.setdefault((str(labels[ARM]), int(labels[SEED])), cell)
    return found


class _Reader:
    def __init__(
        self,
        words: HallmarkWords,
        node: Node,
        cells: Mapping[tuple[str, int], Cell],
        drafts: Mapping[str, StageDraft],
        connector: Connector,
        problems: Problems,
    ) -> None:
        self._words, self._node, self._cells = words, node, cells
        self._drafts, self._connector, self._problems = drafts, connector, problems
        self._arms = tuple(dict.fromkeys(arm for arm, _ in cells))

    def read(self) -> Hallmark | None:
        """Return the hallmark, or None if a problem was noted."""
        before = len(self._problems)
        measures = []
        for name, words in self._words.measures.items():
            place = self._node.at(("measures", name))
            self._check_effect(words.effect, place.at(("effect",)))
            measures.append(self._measure(name, words.value, place.at(("value",)), words))
        for name, text in self._words.also.items():
            measures.append(self._measure(name, text, self._node.at(("also", name)), None))
        if len(self._problems) > before:
            return None
        seeds = tuple(dict.fromkeys(seed for _, seed in self._cells))
        return Hallmark(self._words, self._arms, seeds, tuple(found for found in measures if found))

    def _measure(self, name: str, text: str, node: Node, words: MeasureWords | None) -> Measure | None:
        value = self._expression(text, node)
        if value is None:
            return None
        found = {key: self._sources(value.names, cell, node) for key, cell in self._cells.items()}
        return Measure(name, value, found, words)

    def _sources(self, names: Iterable[str], cell: Cell, node: Node) -> dict[str, tuple[str, str]]:
        sources = {}
        for name in names:
            if "." not in name:
                self._problems.add(node.mark, f"hallmark: {name!r} is not known; expected stage.metric")
                continue
            found = self._connector.follow(Node(name, node.mark), cell)
            if isinstance(found, str | FirstFound):
                self._problems.add(node.mark, f"hallmark: {name!r} is no metric of one stage")
            elif isinstance(found, list) and len(found) > 1:
                self._problems.add(node.mark, several(found, "a hallmark"))
            elif isinstance(found, list) and found:
                self._check_metric(found[0].port, self._drafts[found[0].cell.name], node)
                sources[name] = (found[0].cell.name, found[0].port)
        return sources

    def _check_metric(self, metric: str, draft: StageDraft, node: Node) -> None:
        """Note a metric that the component does not declare; history metrics (`@`) are only known from a run."""
        component = draft.component
        if component is None or not component.metrics or "@" in metric or metric in ALWAYS:
            return
        if not any(metric_fits(metric, known) for known in component.metrics):
            known = (*component.metrics, *ALWAYS)
            self._problems.unknown(node.mark, f"metric of {component.name!r}:", metric, known)

    def _check_effect(self, text: str, node: Node) -> None:
        effect = self._expression(text, node)
        for name in effect.names if effect else ():
            if name not in self._arms:
                self._problems.add(node.mark, f"hallmark: unknown arm {shown(name)}{meant(name, self._arms)}")

    def _expression(self, text: str, node: Node) -> Expression | None:
        try:
            return Expression(text)
        except ExpressionError as error:
            self._problems.add(node.mark, f"hallmark: {error}")
            return None
