"""The section `sweep`, read and checked: its words, its space, and the parameters of every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pipelines.language.nodes import UNKNOWN, Node, mapping
from pipelines.language.problems import Mark, Problems, shown
from pipelines.language.references import Resolver, Scope, plain_node
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.matrix import Axis, Label, Trials
from pipelines.recipe.parameters import describe_parameters, read_parameters
from pipelines.recipe.sweep import samplers
from pipelines.recipe.sweep.reach import TRIAL, changed_parameters, changed_stages, mentions
from pipelines.recipe.sweep.samplers import Dimension, Space, num_values
from pipelines.recipe.sweep.words import DEFAULT_BATCH, MAX_TRIALS, RangeWords, SweepWords

SWEEP = "sweep"
"""Name of the stage that concludes a sweep, and of the section."""


@dataclass(frozen=True)
class Trial:
    """One trial: its number, its round, and its values of the swept parameters (None: the run draws them)."""

    number: int
    round: int
    values: Mapping[str, Any] | None


@dataclass(frozen=True)
class Sweep:
    """A sweep that can be unrolled."""

    words: SweepWords
    node: Node
    space: Space
    trials: tuple[Trial, ...]
    changed: frozenset[str]
    """The swept parameters and those that refer to them."""
    stages: frozenset[str]
    """Stages of the file that differ between trials."""
    params: Mapping[int, Mapping[str, Node]]
    """Trial -> all parameters of the recipe."""

    @property
    def mark(self) -> Mark:
        """Return where the section is."""
        return self.node.where

    @property
    def rounds(self) -> int:
        """Return in how many rounds the trials run."""
        return self.trials[-1].round

    @property
    def drawn(self) -> frozenset[int]:
        """Return the numbers of the trials whose parameters the run draws."""
        return frozenset(trial.number for trial in self.trials if trial.values is None)


def read_sweep(
    root: Node, params: Mapping[str, Node], seed: int, resolver: Resolver, problems: Problems
) -> Sweep | None:
    """Return the sweep of a recipe; None if it has none, or if a problem of it was noted."""
    node = root.child(SWEEP)
    if node is None or node.value is None:
        return None
    node = resolver.resolve(node, Scope({"params": params, "seed": seed}, {}))
    if node.holds_unknown():
        return None
    try:
        words = SweepWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="sweep.", schema=SweepWords)
        return None
    before = len(problems)
    space = _space(node.at(("space",)), root.child("params"), params, problems)
    stages = root.child("stages")
    listed = stages.value if stages is not None and isinstance(stages.value, dict) else {}
    if SWEEP in listed:
        problems.add(listed[SWEEP].where, "stage 'sweep': the section 'sweep' makes a stage of this name; rename yours")
    if len(problems) > before:
        return None
    raw = root.child("params")
    changed = changed_parameters(raw.value if raw is not None else {}, space)
    _check_shape(root, listed, changed, problems)
    reached = changed_stages(listed, root.child("defaults"), changed)
    if not reached:
        problems.add(node.where, f"sweep: no stage uses {' or '.join(f'${{params.{name}}}' for name in space)}")
    trials = _trials(words, space, seed, node, problems)
    if len(problems) > before:
        return None
    values = {trial.number: _params(root, trial, params, space, node, seed, resolver, problems) for trial in trials}
    return Sweep(words, node, space, trials, frozenset(changed), frozenset(reached), values)


def trials_of(sweep: Sweep) -> Trials:
    """Return the axis of a sweep's trials for the unrolling."""
    labels: dict[Label, Node] = {trial.number: plain_node(trial.number, sweep.mark) for trial in sweep.trials}
    return Trials(Axis(TRIAL, labels), sweep.stages, dict(sweep.params.items()))


def _space(node: Node, typed: Node | None, params: Mapping[str, Node], problems: Problems) -> Space:
    """Return the space, its ends and choices checked by the parameters that they are values of."""
    space: dict[str, Dimension] = {}
    for name, child in node.value.items():
        if name not in params:
            problems.unknown(child.where, "parameter in sweep.space:", name, params)
            continue
        dimension = _dimension(name, child, problems)
        if dimension is None:
            continue
        space[name] = dimension
        ends = child.value if isinstance(dimension, list) else [child.value["low"], child.value["high"]]
        for end in ends:
            describe_parameters(typed, {**params, name: end}, problems)
    return space


def _dimension(name: str, node: Node, problems: Problems) -> Dimension | None:
    what = f"sweep.space.{name}"
    if isinstance(node.value, list):
        choices: list[Any] = node.plain()
        if len(choices) < 2 or any(choice in choices[:index] for index, choice in enumerate(choices)):
            problems.add(node.mark, f"{what}: got {shown(choices)}, expected at least two choices, each once")
            return None
        return choices
    if not isinstance(node.value, dict):
        expected = "expected a list of choices or a range {low, high, log, step}"
        problems.add(node.mark, f"{what}: got {shown(node.plain())}, {expected}")
        return None
    try:
        return RangeWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what=f"{what}.", schema=RangeWords)
        return None


def _check_shape(root: Node, stages: Mapping[str, Node], changed: set[str], problems: Problems) -> None:
    """Note where a swept parameter would change the graph: all trials have the same."""
    shapes = [root.child("matrix")]
    for stage in stages.values():
        shapes += [stage.child("matrix"), stage.child("repeat")]
    for node in shapes:
        if node is not None and mentions(node, changed):
            problems.add(node.where, "a swept parameter cannot change a matrix or a repeat: all trials have one graph")


def _trials(words: SweepWords, space: Space, seed: int, node: Node, problems: Problems) -> tuple[Trial, ...]:
    if words.sampler == "grid":
        return _grid(space, node, problems)
    count = words.trials or 0
    size = 1.0
    for dimension in space.values():
        size *= num_values(dimension)
    if count > size:
        message = f"sweep.trials: got {count}, and the space has {size:.0f} points; sampler: grid takes each once"
        problems.add(node.at(("trials",)).mark, message)
        return ()
    batch = min(words.batch or DEFAULT_BATCH, count) if words.sampler == "tpe" else count
    draw = samplers.draw_halton if words.sampler == "halton" else samplers.draw_random
    points: list[dict[str, Any] | None] = [*draw(space, seed, batch)]
    points += [None] * (count - batch)
    return tuple(Trial(number, (number - 1) // batch + 1, point) for number, point in enumerate(points, start=1))


def _grid(space: Space, node: Node, problems: Problems) -> tuple[Trial, ...]:
    size = 1.0
    for name, dimension in space.items():
        size *= dimension.points if isinstance(dimension, RangeWords) and dimension.points else num_values(dimension)
        if size == float("inf"):
            place = node.at(("space", name))
            problems.add(place.mark, f"sweep.space.{name}: a grid needs points or step here: how many values?")
            return ()
    if size > MAX_TRIALS:
        problems.add(node.where, f"sweep: the grid has {size:.0f} points, and a sweep at most {MAX_TRIALS} trials")
        return ()
    return tuple(Trial(number, 1, point) for number, point in enumerate(samplers.draw_grid(space), start=1))


def _params(
    root: Node,
    trial: Trial,
    params: Mapping[str, Node],
    space: Space,
    node: Node,
    seed: int,
    resolver: Resolver,
    problems: Problems,
) -> Mapping[str, Node]:
    """Return all parameters of the recipe in one trial, with the file's values where the run draws."""
    written = root.child("params")
    if trial.values is None or written is None or written.value is UNKNOWN:
        return params
    own = {name: plain_node(value, node.at(("space", name)).mark) for name, value in trial.values.items()}
    return read_parameters(mapping({**written.value, **own}, written.mark), seed, resolver, problems)
