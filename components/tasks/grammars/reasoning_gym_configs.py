"""The config keys of reasoning-gym's tasks, from the library's own text: importing it takes seconds."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, did_you_mean
from components.contract.python_text import parse_module

RESERVED = frozenset({"seed", "size"})
"""Keys that the source sets."""
_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "str": ("text", (str,)),
}


def check_config(task: str, config: Mapping[str, Any]) -> None:
    """Raise InputError for keys that a task does not have, and for values that are not of a plain key's type.

    What only the task itself can judge, such as bounds, is left to it, and so is everything where the library is not
    installed or a task does not say its keys plainly.
    """
    known = config_keys(task)
    for key, value in config.items() if known else ():
        if key in RESERVED:
            raise InputError(f"config.{key} of reasoning-gym task {task!r} cannot be set: the source sets it")
        if key not in known:
            choices = sorted(known.keys() - RESERVED)
            raise InputError(f"reasoning-gym task {task!r} has no config key {key!r}{did_you_mean(key, choices)}")
        expected, types = _TYPES.get(known[key], ("", ()))
        if types and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            raise InputError(f"config.{key} of reasoning-gym task {task!r}: got {value!r:.60}, expected {expected}")


@cache
def config_keys(task: str) -> Mapping[str, str]:
    """Return key -> annotation of a task's config; none if the library's text does not say them plainly."""
    spec = importlib.util.find_spec("reasoning_gym")
    places = spec.submodule_search_locations if spec else None
    for path in sorted(Path(place) for place in places or ()):
        for file in sorted(path.rglob("*.py")):
            text = file.read_text(encoding="utf-8", errors="replace")
            if "register_dataset(" in text and f'"{task}"' in text and (found := _keys(text, task)):
                return found
    return {}


def _keys(text: str, task: str) -> dict[str, str]:
    """Return the fields of the config class that a module registers for a task."""
    tree = parse_module(text)
    names = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "register_dataset" or len(call.args) < 3:
            continue
        first, config = call.args[0], call.args[2]
        name = names.get(first.id) if isinstance(first, ast.Name) else getattr(first, "value", None)
        found = classes.get(config.id) if isinstance(config, ast.Name) else None
        if name == task and found is not None and not found.bases:
            return {
                item.target.id: ast.unparse(item.annotation)
                for item in found.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
    return {}
