"""Parameters of stages that the run draws: where in `with` a swept parameter stands, and that any value of it fits."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from components.contract.job import Setting
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.draft import StageDraft
from pipelines.recipe.sweep.reach import mentions, mentions_in, texts
from pipelines.recipe.sweep.section import Sweep

_WHOLE = re.compile(r"\$\{\s*params\.([a-z0-9_-]+)\s*\}", re.ASCII)
ONLY = "with sampler tpe the run draws it, so it must be the whole value of a parameter of a stage"


class Drawn:
    """Finds the settings of trials that the run draws."""

    def __init__(self, sweep: Sweep, params: Mapping[str, Node], defaults: Node | None, problems: Problems) -> None:
        self._sweep, self._defaults, self._problems = sweep, defaults, problems
        self._names = {name: name for name in sweep.space}
        for name in sorted(sweep.changed - set(sweep.space)):
            found = _WHOLE.fullmatch(params[name].origin)
            if found and found[1] in self._names:
                self._names[name] = self._names[found[1]]

    def settings(self, draft: StageDraft, source: str, trial: int) -> list[Setting]:
        """Return the settings of a stage of a drawn trial from the stage that draws; misplaced parameters are noted."""
        self._check_place(draft)
        found = []
        for path, name in self._places(draft.given, ()) if draft.given is not None else ():
            dimension = self._sweep.space[name]
            choices = list(dimension) if isinstance(dimension, list) else None
            whole = not isinstance(dimension, list) and dimension.whole
            metric = f"{name}_{trial}"
            found.append(Setting(path=[*path], stage=source, metric=metric, choices=choices, whole=whole))
            self._check_values(draft, path, name)
        return found

    def _places(self, node: Node, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        whole = _WHOLE.fullmatch(node.origin)
        if whole and whole[1] in self._names:
            yield path, self._names[whole[1]]
        elif isinstance(node.value, dict | list):
            children = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
            for step, child in children:
                yield from self._places(child, (*path, step))

    def _check_place(self, draft: StageDraft) -> None:
        """Note every swept parameter that is not a whole value of `with`."""
        written = draft.cell.template.node
        for key, child in written.value.items():
            self._check_texts(child, draft, may_be_whole=key == "with")
        if self._defaults is None or not isinstance(self._defaults.value, dict) or draft.component is None:
            return
        for key, child in self._defaults.value.items():
            if key == "with":
                self._check_texts(child.child(draft.component.name), draft, may_be_whole=True)
            else:
                self._check_texts(child, draft, may_be_whole=False)

    def _check_texts(self, node: Node | None, draft: StageDraft, *, may_be_whole: bool) -> None:
        if not mentions(node, self._sweep.changed):
            return
        for text in texts(node):
            whole = _WHOLE.fullmatch(text.value.strip())
            if mentions_in(text.value, self._sweep.changed) and not (
                may_be_whole and whole and whole[1] in self._names
            ):
                what = f"stage {draft.cell.template.path!r}, {shown(text.value)}"
                self._problems.add(text.mark, f"{what} is swept: {ONLY}")

    def _check_values(self, draft: StageDraft, path: tuple[str | int, ...], name: str) -> None:
        """Note values of the space that the component refuses, where the space says them."""
        assert draft.component is not None
        dimension = self._sweep.space[name]
        values = dimension if isinstance(dimension, list) else [dimension.low, dimension.high]
        place = self._sweep.node.at(("space", name))
        for value in values:
            params: Any = copy.deepcopy(draft.params)
            at = params
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = value
            try:
                draft.component.params.model_validate(params)
            except ValidationError as error:
                what = f"sweep.space.{name}: {shown(value)} in stage {draft.cell.template.path!r}, with."
                add_schema_errors(self._problems, error, place, what=what, schema=draft.component.params)
