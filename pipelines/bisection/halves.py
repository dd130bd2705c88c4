"""Halves: GOOD with some of BAD's differences, each a recipe in a file of its own."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.display import Role
from components.contract.errors import InputError
from components.contract.registry import component_targets
from pipelines.bisection.differences import Difference, Part, apply, with_stages
from pipelines.bisection.trees import ABSENT, Tree, value_at
from pipelines.bisection.versions import TODAY, Versions
from pipelines.language.find import MAX_NAME_LENGTH
from pipelines.language.problems import meant
from pipelines.plan.plan import build_plan
from pipelines.recipe.grammar import metric_fits
from pipelines.recipe.layers import override_text
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.recipe.stage import Stage

UNHASHED = {"run_id", "recipe", "store", "code", "written"}
AXIS = ("matrix", "seed")
HISTORY, SECONDS = "@", "seconds"


def write_half(tree: Tree, folder: Path, name: str) -> Path:
    """Write a tree as a recipe, once, and return its file: equal trees have the same one."""
    own = {"name": name[:MAX_NAME_LENGTH].rstrip("-_"), **{key: tree[key] for key in tree if key != "name"}}
    text = json.dumps(own, indent=1, ensure_ascii=False) + "\n"
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Metric:
    """What is compared: a metric of one stage."""

    text: str
    stage: str
    """At the first seed."""
    name: str
    axis: int | None = None
    """The first seed, if seeds are an axis of the matrix and hence in the stage's name."""

    def stage_at(self, seed: int) -> str:
        """Return the stage's name at a seed."""
        return self.stage if self.axis is None else self.stage.replace(f"-seed-{self.axis}", f"-seed-{seed}")


def find_metric(recipe: Recipe, text: str, end: str) -> Metric:
    """Return the metric of one stage that a text names; raise InputError with what is there if there is none."""
    called: dict[str, list[Stage]] = {}
    for stage in recipe.stages:
        for name in {stage.name, stage.group or stage.name}:
            called.setdefault(name, []).append(stage)
    named = max((name for name in called if text.startswith(f"{name}.")), key=len, default=None)
    if named is None:
        known = [f"{stage.name}.{name}" for stage in recipe.stages for name in stage.component.known_metrics(None)]
        raise InputError(f"--metric: {end} has no stage {text.partition('.')[0]!r}{meant(text, known)}")
    if len(called[named]) > 1:
        cells = ", ".join(stage.name for stage in called[named][:8])
        raise InputError(f"--metric: {named} is {len(called[named])} stages of {end}; name one of them: {cells}")
    stage, name = called[named][0], text[len(named) + 1 :]
    _need_measured(stage, name, end)
    axis = stage.labels.get("seed")
    return Metric(text, stage.name, name, axis if isinstance(axis, int) else None)


def _need_measured(stage: Stage, name: str, end: str) -> None:
    """Raise InputError for a headline metric that a stage does not measure."""
    known = list(stage.component.known_metrics(stage.config))
    if not known or HISTORY in name or name == SECONDS:
        return
    if not any(metric_fits(name, one) for one in known):
        raise InputError(f"--metric: {stage.name} of {end} measures no {name!r}{meant(name, known)}")
    if why := stage.component.lacks(stage.config, name):
        raise InputError(f"--metric: {name} is not measured by {stage.name} of {end}: {why}")


def needed_stages(recipe: Recipe, stage: str) -> list[str]:
    """Return the stages that a stage waits for, and itself, in the order of the recipe."""
    after = {one.name: one.after for one in recipe.stages}
    found, queue = set[str](), [stage]
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += after.get(name, [])
    return [one.name for one in recipe.stages if one.name in found]


@dataclass(frozen=True)
class Halves:
    """All mixtures of two recipes and of two versions of the code."""

    good: Tree
    differences: tuple[Difference, ...]
    folder: Path
    name: str
    """Of the recipes that are written."""
    versions: Versions | None = None
    """None where both ends run today's code."""

    def tree(self, chosen: Collection[int]) -> Tree:
        """Return GOOD's tree with these differences, by their numbers."""
        tree = copy.deepcopy(self.good)
        apply(tree, [self.differences[number] for number in sorted(chosen)])
        return tree

    def write(self, chosen: Collection[int]) -> Path:
        """Return the file of a mixture's recipe."""
        return write_half(self.tree(chosen), self.folder, self.name)

    def overrides(self, chosen: Collection[int], seed: int) -> list[str]:
        """Return the overrides that give a mixture a seed."""
        return seed_overrides(self.tree(chosen), seed)

    def recipe(self, chosen: Collection[int], seed: int) -> Recipe:
        """Return a mixture at a seed; raise InputError if it is no valid recipe."""
        return load_recipe(str(self.write(chosen)), self.overrides(chosen, seed))

    def root(self, chosen: Collection[int]) -> Path | None:
        """Return the folder with a mixture's code; None for today's, which runs here."""
        return self.versions.root(self._rooms(chosen)) if self.versions else None

    def code_title(self, chosen: Collection[int]) -> str:
        """Return what a mixture's code is, in words."""
        return self.versions.title(self._rooms(chosen)) if self.versions else TODAY

    def _rooms(self, chosen: Collection[int]) -> list[str]:
        return [room for number in sorted(chosen) for room in self.differences[number].rooms]


def load_tree(tree: Tree, folder: Path, name: str, seed: int | None = None) -> Recipe:
    """Return the recipe of a tree, at a seed of its own or the given one."""
    return load_recipe(str(write_half(tree, folder, name)), [] if seed is None else seed_overrides(tree, seed))


def seed_overrides(tree: Tree, seed: int) -> list[str]:
    """Return the overrides that give a recipe a seed: as its own, or as the only one of its matrix."""
    key, value = ("seed", seed) if value_at(tree, AXIS) is ABSENT else (".".join(AXIS), [seed])
    return [override_text(key, value)]


def jobs_of(recipe: Recipe, stages: Collection[str]) -> dict[str, bytes]:
    """Return what each of these stages is asked to do, as bytes."""
    return {
        job.stage: canonical_json(job.model_dump(mode="json", exclude=UNHASHED))
        for job in build_plan(recipe, "", "bisect").jobs
        if job.stage in stages
    }


class Order:
    """Tells which needed stages a difference changes: by the jobs with it alone, and with all but it."""

    def __init__(self, halves: Halves, seed: int, metric: str) -> None:
        self._halves, self._seed, self._metric = halves, seed, metric
        self._all = frozenset(range(len(halves.differences)))
        self.ends = halves.recipe(frozenset(), seed), halves.recipe(self._all, seed)
        self._jobs = [self._of(recipe) for recipe in self.ends]
        names = [name for recipe in self.ends for name in needed_stages(recipe, metric)]
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}

    def _of(self, recipe: Recipe) -> dict[str, bytes]:
        return jobs_of(recipe, needed_stages(recipe, self._metric))

    def touched(self, number: int) -> list[str] | None:
        """Return the stages that a difference changes, in order; None if it does not stand alone and changes none."""
        found, stands = set[str](), True
        for jobs, chosen in zip(self._jobs, ({number}, self._all - {number}), strict=True):
            try:
                mixed = self._of(self._halves.recipe(chosen, self._seed))
            except InputError:
                stands = False
            else:
                found |= {name for name in {*mixed, *jobs} if mixed.get(name) != jobs.get(name)}
        return sorted(found, key=self.place) if stands or found else None

    def of_rooms(self, rooms: Collection[str]) -> list[str]:
        """Return the needed stages that may run the code of these rooms: of a component its own, else all."""
        parts = [room.rpartition("/")[2] for room in rooms]
        kinds = {stage.name: stage.component.name for recipe in self.ends for stage in recipe.stages}
        is_shared = not all(part in component_targets() for part in parts)
        return [name for name in self._places if is_shared or kinds.get(name) in parts]

    def place(self, stage: str) -> int:
        """Return the place of a stage in the recipe."""
        return self._places.get(stage, len(self._places))

    def with_default(self, part: Part) -> Part:
        """Return a parameter of a stage that one side does not set with the value that it has there."""
        sides = [side for side, value in enumerate((part.good, part.bad)) if value is ABSENT]
        keys = [str(step) for step in part.path]
        if not sides or keys[0] != "stages" or "with" not in keys[2:]:
            return part
        mark = keys.index("with", 2)
        named = ".".join(key for key in keys[1:mark] if key != "stages")
        stages = [stage for stage in self.ends[sides[0]].stages if (stage.group or stage.name) == named]
        value: Any = stages[0].config if stages else ABSENT
        for step in part.path[mark + 1 :]:
            value = getattr(value, str(step), ABSENT)  # of a list or an operator nothing is known
        return replace(part, default=value)

    def makes_rows(self, name: str) -> bool:
        """Return whether a stage makes rows."""
        return any(s.component.role is Role.DATA for recipe in self.ends for s in recipe.stages if s.name == name)


def in_order(halves: Halves, seed: int, metric: str) -> tuple[Halves, list[Difference]]:
    """Return the halves with only the differences that change the work behind a stage's metric, and the others.

    One that changes nothing by itself, neither added to GOOD nor taken from BAD, is left out. The rest is in the order
    of the stages that it changes, so that halves share as many stages as they can.
    """
    order = Order(halves, seed, metric)
    kept: list[tuple[int, int, Difference]] = []
    idle: list[Difference] = []
    for number, difference in enumerate(halves.differences):
        stages = order.of_rooms(difference.rooms) if difference.rooms else order.touched(number)
        if stages == []:
            idle.append(difference)
            continue
        first = stages[0] if stages else None
        place = -1 if first is None else order.place(first)
        data = first is not None and order.makes_rows(first)
        told = replace(difference, parts=tuple(order.with_default(part) for part in difference.parts))
        kept.append((place, number, with_stages(told, stages or (), data=data)))
    ordered = tuple(difference for _, _, difference in sorted(kept, key=lambda one: one[:2]))
    return replace(halves, differences=ordered), idle
