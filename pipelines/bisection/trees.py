"""A recipe as one plain tree: merged over its parents, overridden, every path absolute, without what changes no result.

A half is such a tree with some values of the other one, written to a file that is a recipe like any other.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from pipelines.language.document import Document
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems
from pipelines.language.uris import home_path
from pipelines.recipe.layers import apply_overrides, merge_layers

Tree = dict[str, Any]
Place = tuple[str | int, ...]

CODE_SUFFIX = ".py:"
SAYING = ("name", "summary", "schedule", "hallmark", "system")
"""Keys of a recipe that change no result."""
JUDGING = ("register", "approve", "gate", "expect", "integrity", "alarms", "on_alarm")
"""Keys of a stage that judge or publish what it made."""
RUNNING = ("summary", "retries", "backoff", "timeout", "keep_partial")
"""Keys of a stage that say how it is run, not what it computes."""
MAX_PATH = 1024


class Absent:
    """What a tree has at a place that it lacks."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


def tree_of(documents: Sequence[Document], overrides: Sequence[str]) -> Tree:
    """Return the tree of a recipe's files, the child first, and its overrides; raise RecipeErrors for bad ones."""
    problems = Problems()
    root = apply_overrides(merge_layers(documents), overrides, problems)
    problems.stop()
    folders = {document.label: document.path.parent for document in documents}
    whole: Tree = _plain(root, folders)
    return _without(whole)


def _plain(node: Node, folders: Mapping[str, Path]) -> Any:
    """Return the value of a node with absolute paths: relative ones are from the folder of the file that says so."""
    if isinstance(node.value, dict):
        return {name: _plain(child, folders) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child, folders) for child in node.value]
    return _absolute(node.value, folders.get(node.file, Path())) if isinstance(node.value, str) else node.value


def _absolute(text: str, folder: Path) -> str:
    """Return a text that names a file or folder by a relative path, or a function in one, with the path absolute."""
    path, is_code, function = text.partition(CODE_SUFFIX)
    path = f"{path}.py" if is_code else path.removeprefix("file:")
    if ("/" not in path and not path.startswith(".")) or "://" in path or "$" in path or len(path) > MAX_PATH:
        return text
    try:
        found = folder.absolute() / home_path(path)
        if not found.exists():
            return text
    except (InputError, OSError, ValueError):
        return text
    return f"{found}:{function}" if is_code else str(found)


def _without(tree: Tree) -> Tree:
    """Return the tree without what changes no result, and with the plain values of its parameters."""
    kept = {key: value for key, value in tree.items() if key not in SAYING}
    params = kept.get("params")
    if isinstance(params, dict):
        kept["params"] = {name: _value(given) for name, given in params.items()}
    for place in ("defaults", "stages"):
        if isinstance(kept.get(place), dict):
            kept[place] = _of_stage(kept[place]) if place == "defaults" else _of_stages(kept[place])
    return {key: value for key, value in kept.items() if key != "defaults" or value}


def _value(given: Any) -> Any:
    return given["default"] if isinstance(given, dict) and "default" in given else given


def _of_stages(stages: Tree) -> Tree:
    return {name: _of_stage(stage) if isinstance(stage, dict) else stage for name, stage in stages.items()}


def _of_stage(stage: Tree) -> Tree:
    kept = {key: value for key, value in stage.items() if key not in (*JUDGING, *RUNNING)}
    if isinstance(kept.get("stages"), dict):  # of a repeat
        kept["stages"] = _of_stages(kept["stages"])
    return kept


def value_at(tree: Any, path: Place) -> Any:
    """Return what a tree has at a place, or ABSENT."""
    for step in path:
        in_list = isinstance(tree, list) and isinstance(step, int) and step < len(tree)
        if not in_list and not (isinstance(tree, dict) and step in tree):
            return ABSENT
        tree = tree[step]
    return tree


def put(tree: Tree, path: Place, value: Any) -> None:
    """Set what a tree has at a place, or remove it; mappings on the way are made."""
    *above, last = path
    place: Any = tree
    for step in above:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if isinstance(value, Absent):
        del place[last]
    else:
        place[last] = copy.deepcopy(value)


def differing(a: Any, b: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the deepest places at which two trees differ.

    An operator of another name, a stage of another component and lists of another length differ as a whole.
    """
    if isinstance(a, dict) and isinstance(b, dict) and _is_same_kind(a, b):
        for name in dict.fromkeys([*a, *b]):
            yield from differing(a.get(name, ABSENT), b.get(name, ABSENT), (*path, name))
    elif _are_entries(a) and _are_entries(b) and len(a) == len(b):
        for place, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differing(one, other, (*path, place))
    elif isinstance(a, bool) != isinstance(b, bool) or a != b:
        yield path


def _is_same_kind(a: Tree, b: Tree) -> bool:
    return all(a.get(key) == b.get(key) for key in ("name", "uses")) and ("repeat" in a) == ("repeat" in b)


def _are_entries(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)
