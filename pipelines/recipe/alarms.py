"""Alarms in recipes: which a stage may name, and what the parameters that they mention are called in the recipe."""

from __future__ import annotations

import re
from collections.abc import Iterable

from components.contract.component import Component
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems

_PARAMETER = re.compile(r"\$\{\s*params\.([a-z0-9_-]+)\s*\}")


def check_alarms(path: str, stage: Node, named: Iterable[str], component: Component, problems: Problems) -> None:
    """Note `named` alarms that a stage's component does not raise, and reactions to alarms where it raises none."""
    known = [alarm.name for alarm in component.alarms]
    given = stage.child("on_alarm")  # a default for all stages may meet some that have no alarms
    if given is not None and not known:
        problems.add(given.where, f"stage {path!r}, on_alarm: component {component.name!r} raises no alarms")
    bounds = stage.child("alarms")
    for name in named:
        if name not in known:
            node = bounds.child(name) if bounds is not None else None
            problems.unknown(node.where if node else stage.where, f"alarm of stage {path!r}:", name, known)


def written_names(path: str, params: Node, component: Component) -> dict[str, str]:
    """Return what --set calls each parameter that an alarm of the stage mentions, by the parameter's dotted path.

    That is the recipe's own parameter where its value is one, else the place in the stage.
    """
    paths = dict.fromkeys(name for alarm in component.alarms for name in alarm.parameters)
    place = f"stages.{path.replace('.', '.stages.')}.with"
    return {name: _name(params, name, place) for name in paths}


def _name(params: Node, path: str, place: str) -> str:
    node = params.find(tuple(path.split(".")))
    found = _PARAMETER.fullmatch(node.origin) if node is not None else None
    return found[1] if found else f"{place}.{path}"
