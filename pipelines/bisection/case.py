"""What is bisected: two ends, what they differ in, and the metric; every refusal comes before anything is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.runtime.ledger.ledger import Ledger
from components.runtime.store.access import folder_beside
from pipelines.bisection.bisect import SIDES
from pipelines.bisection.differences import Difference, differences
from pipelines.bisection.ends import End, read_end, with_code
from pipelines.bisection.halves import Halves, Metric, find_metric, in_order, load_tree, needed_stages
from pipelines.bisection.trees import Tree
from pipelines.bisection.versions import Versions, find_version
from pipelines.recipe.recipe import Recipe

if TYPE_CHECKING:
    from components.runtime.store import Store

FOLDER = "bisect"
SUFFIX = "-bisect"
MAX_NAME = 63 - len(SUFFIX)


@dataclass(frozen=True)
class Case:
    """A bisection that can be run."""

    ends: tuple[End, End]
    metric: Metric
    halves: Halves
    idle: tuple[Difference, ...]
    """Differences that change nothing behind the metric."""
    stages: tuple[str, ...]
    """The stages behind the metric, in order; others are not run."""
    recipe: str
    """The name of GOOD's recipe."""
    seed: int
    """The first one of both ends."""
    notes: tuple[str, ...] = ()

    @property
    def recorded(self) -> list[float | None]:
        """Return what the ends measured at the first seed when they were recorded; None where they did not."""
        return [_recorded(end, self.metric, self.seed) for end in self.ends]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Return what is searched."""
        return self.halves.differences


def prepare(store: Store, good: str, bad: str, metric: str) -> Case:
    """Return the case of two ends and a metric.

    Raises InputError where an end or the metric is not known, where nothing differs, and where stages do not match.
    """
    folder = folder_beside(store.uri) / FOLDER
    ends = [read_end(store, text, lambda tree: load_tree(tree, folder, FOLDER)) for text in (good, bad)]
    recipes, found = _measuring(ends, metric, folder)
    trees = _needed_trees([end.tree for end in ends], recipes, found.stage, folder)
    ends = [_with_code(store, end, found, folder) for end in ends]
    versions = _versions(ends, folder / "code")
    rooms = versions.differences() if versions else []
    name = _name(ends[0])
    whole = Halves(trees[0], (*differences(*trees), *rooms), folder, f"{name[:MAX_NAME]}{SUFFIX}", versions)
    halves, idle = _searched(whole, ends, found)
    stages = needed_stages(halves.recipe(frozenset(), ends[0].seed), found.stage)
    notes = tuple(_notes(store, ends))
    return Case((ends[0], ends[1]), found, halves, tuple(idle), tuple(stages), name, ends[0].seed, notes)


def _measuring(ends: Sequence[End], metric: str, folder: Path) -> tuple[list[Recipe], Metric]:
    """Return both recipes at GOOD's seed, and the metric that both measure; raise InputError where they do not."""
    recipes = [load_tree(end.tree, folder, FOLDER, ends[0].seed) for end in ends]
    titles = [f"{side} ({end.title})" for side, end in zip(SIDES, ends, strict=True)]
    found = [find_metric(recipe, metric, title) for recipe, title in zip(recipes, titles, strict=True)]
    _need_alike(recipes, found)
    return recipes, found[0]


def _with_code(store: Store, end: End, metric: Metric, folder: Path) -> End:
    """Return an end with the commit that it ran, judged at the seed of its own."""
    if end.run is None:
        return end
    recipe = load_tree(end.tree, folder, FOLDER)
    return with_code(store, end, recipe, needed_stages(recipe, metric.stage_at(end.seed)))


def _searched(whole: Halves, ends: Sequence[End], metric: Metric) -> tuple[Halves, list[Difference]]:
    """Return the halves with the differences that may be a cause, and the others; raise InputError if there is none."""
    if not whole.differences:
        raise InputError(
            f"{ends[0].title} and {ends[1].title} do not differ in anything that changes a result: "
            "neither in parameters, data, code nor packages"
        )
    halves, idle = in_order(whole, ends[0].seed, metric.stage)
    if not halves.differences:
        names = ", ".join(difference.name for difference in idle[:5])
        raise InputError(
            f"GOOD and BAD differ in nothing that {metric.text} depends on ({names} change no stage behind it)"
        )
    _need_seeds(halves, ends[0].seed, metric)
    return halves, idle


def _recorded(end: End, metric: Metric, seed: int) -> float | None:
    entry = end.run.stages.get(metric.stage) if end.run is not None and end.seed == seed else None
    value = (entry or {"metrics": {}})["metrics"].get(metric.name)
    return None if value is None else float(value)


def _name(end: End) -> str:
    if end.run is not None:
        return str(end.run.entry["recipe"])
    from pipelines.language.find import find_recipe
    from pipelines.recipe.layers import merge_layers, read_layers

    named = end.title.rpartition("@")[0] if end.commit else end.title
    node = merge_layers(read_layers(find_recipe(named))).child("name")
    return str(node.value) if node is not None else "recipe"


def _need_alike(recipes: Sequence[Recipe], found: Sequence[Metric]) -> None:
    """Raise InputError for recipes whose stages cannot be set against one another."""
    if found[0].stage != found[1].stage:
        raise InputError(
            f"the metric is of stage {found[0].stage} in GOOD and of {found[1].stage} in BAD: their matrices differ in "
            "shape, and no half has both; name recipes of one shape"
        )
    names = [{stage.name: stage.component.name for stage in recipe.stages} for recipe in recipes]
    measuring = found[0].stage
    if names[0][measuring] != names[1][measuring]:
        raise InputError(
            f"stage {measuring} is {names[0][measuring]} in GOOD and {names[1][measuring]} in BAD: "
            "their metrics are not the same quantity"
        )
    if len(names[0]) > 1 and len(names[1]) > 1 and set(names[0]) & set(names[1]) == {measuring}:
        raise InputError(
            f"GOOD and BAD share no stage but {measuring}, so their differences cannot be told apart "
            f"(GOOD: {_some(names[0])}; BAD: {_some(names[1])})"
        )


def _some(names: Mapping[str, str]) -> str:
    listed = list(names)
    return ", ".join(listed[:6]) + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")


def _needed_trees(trees: Sequence[Tree], recipes: Sequence[Recipe], metric: str, folder: Path) -> Sequence[Tree]:
    """Return both trees without the stages that the metric does not depend on, where they can do without them."""
    if any("sweep" in tree for tree in trees):
        return trees
    needed = set[str]()
    for recipe in recipes:
        names = set(needed_stages(recipe, metric))
        needed |= {(stage.group or stage.name).split(".")[0] for stage in recipe.stages if stage.name in names}
    known = {(stage.group or stage.name).split(".")[0] for recipe in recipes for stage in recipe.stages}
    dropped = known - needed
    smaller = [
        {**tree, "stages": {name: stage for name, stage in tree["stages"].items() if name not in dropped}}
        for tree in trees
    ]
    try:
        for tree in smaller:
            load_tree(tree, folder, "bisect")
    except InputError:  # something refers to them that is left out by its `when`
        return trees
    return smaller


def _versions(ends: Sequence[End], folder: Path) -> Versions | None:
    """Return the versions of the code of both ends; None if it is the same."""
    if ends[0].commit == ends[1].commit and ends[0].commit is None:
        return None
    good, bad = (find_version(end.commit, folder) for end in ends)
    return Versions(good, bad, folder)


def _need_seeds(halves: Halves, seed: int, metric: Metric) -> None:
    """Raise InputError for a recipe whose stages all have seeds of their own: its runs would be equal, not pairs."""
    asked = [_asked(halves.recipe(frozenset(), one), metric.stage_at(one)) for one in (seed, seed + 1)]
    if asked[0] == asked[1]:
        raise InputError(
            "no stage behind the metric depends on the recipe's seed (all have seeds of their own), so there are no "
            "pairs to judge by: leave out their `seed`"
        )


def _asked(recipe: Recipe, stage: str) -> list[tuple[object, int]]:
    """Return parameters and seeds of the stages behind one."""
    names = needed_stages(recipe, stage)
    return [(one.params, one.seed) for one in recipe.stages if one.name in names]


def _notes(store: Store, ends: Sequence[End]) -> Iterator[str]:
    """Yield what of recorded runs cannot be had again."""
    for side, end in zip(SIDES, ends, strict=True):
        if end.lost:
            yield f"{side} {end.lost}"
        if end.run is not None:
            yield from _packages(store, side, end)


def _packages(store: Store, side: str, end: End) -> Iterator[str]:
    """Yield the packages that a run used in another version than is installed: no half can have both."""
    assert end.run is not None
    ledger, used = Ledger(store), dict[str, str]()
    for entry in end.run.stages.values():
        action = ledger.action(entry["fingerprint"]) if entry["fingerprint"] else None
        used |= (action or {"parts": {}})["parts"].get("packages") or {}
    for name, then in sorted(used.items()):
        try:
            now = version(name)
        except PackageNotFoundError:
            now = "not installed"
        if now != then:
            yield f"package {name} was {then} in {side} and is {now} now; both ends run what is installed"
