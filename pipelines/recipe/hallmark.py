"""Hallmarks: what a recipe claims of its arms, declared so that `posttrain reproduce` can judge it.

    hallmark:
      claim: The wider upper clip keeps entropy, and accuracy with it
      preconditions: {entropy_falls: {value: rl.entropy@first - rl.entropy, at_least: 0.1}}
      active: {clipped: {value: rl.clip_fraction@mean, at_least: 0.001}}
      mechanism: {name: entropy, value: rl.entropy, direction: higher, floor: 0.02, floor_from: a tenth of its fall}
      budget: rl.num_tokens
      also: {pass_at_16: evaluate.pass_at_16_sums}

`value` is an expression over metrics of stages, calculated for every arm and seed of the matrix; `effect` one over the
arms, calculated for every seed. Engines ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from components.contract.expressions import Expression, ExpressionError
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, meant, shown
from pipelines.language.references import Resolver, Scope
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.connect import Connector
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.found import FirstFound, several
from pipelines.recipe.grammar import metric_fits
from pipelines.recipe.hallmark_words import HallmarkWords, SecondaryWords
from pipelines.recipe.unroll import Cell

ARM, SEED = "arm", "seed"
"""The axes of the matrix along which a hallmark compares and repeats."""
ALWAYS = ("seconds",)
"""Metric that every stage has: the time it took."""
CLAIMS = ("mechanism", "outcome")
"""Parts of a hallmark that are judged, each by one measure."""
NOTHING = Expression("0")
"""In the place of an expression that cannot be read, which is noted as a problem."""


@dataclass(frozen=True)
class Measure:
    """One quantity and the source of its metrics."""

    value: Expression
    sources: Mapping[tuple[str, int], Mapping[str, tuple[str, str]]]
    """(arm, seed) -> name in `value` -> (stage of the graph, metric)."""
    effect: Expression | None = None
    """Expression over arms; None for a value that is shown of every arm."""


@dataclass(frozen=True)
class Hallmark:
    """A claim that can be measured."""

    words: HallmarkWords
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    claims: Mapping[str, Measure]
    """`mechanism`, `outcome` or both -> what judges it."""
    preconditions: Mapping[str, Measure]
    active: Mapping[str, Measure]
    secondary: Mapping[str, Measure]
    also: Mapping[str, Measure]
    budget: Measure | None = None
    tuned_by: Measure | None = None
    """What chooses among the values of `tuning`."""


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
        before, words = len(self._problems), self._words
        claims = {part: self._effect(found, part) for part in CLAIMS if (found := getattr(words, part)) is not None}
        groups = {
            group: {name: self._effect(found, group, name) for name, found in getattr(words, group).items()}
            for group in ("preconditions", "active", "secondary")
        }
        also = {name: self._measure(text, self._node.at(("also", name))) for name, text in words.also.items()}
        budget = None if words.budget is None else self._measure(words.budget, self._node.at(("budget",)))
        tuned_by = None if words.tuning is None else self._measure(words.tuning.by, self._node.at(("tuning", "by")))
        if len(self._problems) > before:
            return None
        seeds = tuple(dict.fromkeys(seed for _, seed in self._cells))
        return Hallmark(words, self._arms, seeds, claims, also=also, budget=budget, tuned_by=tuned_by, **groups)

    def _effect(self, words: SecondaryWords, *path: str) -> Measure:
        place = self._node.at(path)
        effect = self._expression(words.effect, place.at(("effect",)))
        for name in effect.names if effect else ():
            if name not in self._arms:
                mark = place.at(("effect",)).mark
                self._problems.add(mark, f"hallmark: unknown arm {shown(name)}{meant(name, self._arms)}")
        return self._measure(words.value, place.at(("value",)), effect)

    def _measure(self, text: str, node: Node, effect: Expression | None = None) -> Measure:
        value = self._expression(text, node)
        sources = {key: self._sources(value.names, cell, node) for key, cell in self._cells.items()} if value else {}
        return Measure(value or NOTHING, sources, effect)

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
        metrics = component.known_metrics(draft.config)
        if not any(metric_fits(metric, known) for known in metrics):
            known = (*metrics, *ALWAYS)
            self._problems.unknown(node.mark, f"metric of {component.name!r}:", metric, known)
        elif why := component.lacks(draft.config, metric):
            self._problems.add(node.mark, f"hallmark: {metric} is not measured: {why}")

    def _expression(self, text: str, node: Node) -> Expression | None:
        try:
            return Expression(text)
        except ExpressionError as error:
            self._problems.add(node.mark, f"hallmark: {error}")
            return None
