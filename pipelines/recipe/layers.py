"""Layers of a recipe before it is read: the file over the parents that it extends, then --set overrides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.language.document import Document, parse, read_document
from pipelines.language.find import find_parent
from pipelines.language.nodes import Node, mapping
from pipelines.language.problems import Mark, Problem, Problems, RecipeErrors, meant, shown
from pipelines.recipe.grammar import RECIPE_KEYS

MAX_PARENTS = 8
MAX_OVERRIDE_LENGTH = 4096


def read_layers(path: Path) -> list[Document]:
    """Return the recipe file and then its parents; raise RecipeErrors for a missing parent or a cycle."""
    documents = [read_document(path)]
    while (parent := documents[-1].root.child("extends")) is not None:
        child = documents[-1]
        if not isinstance(parent.value, str):
            raise _refuse(parent.mark, f"extends: got {shown(parent.plain())}, expected the name or path of one recipe")
        try:
            found = find_parent(parent.value, child.path)
        except InputError as error:
            raise _refuse(parent.mark, f"extends: {error}") from None
        chain = [document.path.resolve() for document in documents]
        if found.resolve() in chain:
            circle = [*(p.stem for p in chain[chain.index(found.resolve()) :]), found.stem]
            raise _refuse(parent.mark, f"extends goes in a circle: {' -> '.join(circle)}")
        if len(documents) > MAX_PARENTS:
            raise _refuse(parent.mark, f"extends goes through more than {MAX_PARENTS} parents")
        documents.append(read_document(found))
    return documents


def merge_layers(documents: Sequence[Document]) -> Node:
    """Return the child deep-merged over its parents, without `extends` itself."""
    root = documents[-1].root
    for document in reversed(documents[:-1]):
        root = merge(root, document.root)
    return mapping({name: node for name, node in root.value.items() if name != "extends"}, documents[0].root.mark)


def merge(base: Node, over: Node, path: tuple[str, ...] = ()) -> Node:
    """Return `over` merged onto `base`: mappings merge, `null` removes a key of the base, anything else replaces.

    Two mappings with different `name` keys are different operators and replace one another; a plain value over a
    typed parameter becomes its default.
    """
    if not isinstance(base.value, dict):
        return over
    if not isinstance(over.value, dict):
        is_typed_parameter = len(path) == 2 and path[0] == "params" and "default" in base.value
        return mapping({**base.value, "default": over}, base.mark, base.key) if is_typed_parameter else over
    names = [node.value["name"].value for node in (base, over) if "name" in node.value]
    if path and len(names) == 2 and names[0] != names[1]:
        return over
    entries = dict(base.value)
    for name, node in over.value.items():
        if node.value is None and name in entries:
            del entries[name]
        else:
            entries[name] = merge(entries[name], node, (*path, name)) if name in entries else node
    return mapping(entries, over.mark, over.key)


def apply_overrides(root: Node, overrides: Iterable[str], problems: Problems) -> Node:
    """Return the recipe with every "key=value" applied in order; unknown paths are noted and skipped."""
    for override in overrides:
        try:
            root = _apply(root, override)
        except RecipeErrors as errors:
            for problem in errors.problems:
                problems.add(problem.mark, problem.message)
    return root


def _apply(root: Node, override: str) -> Node:
    key, equals, text = override.partition("=")
    key = key.strip()
    mark = Mark(f"--set {visible_line(override if len(override) <= 60 else override[:57] + '...')}")
    if not equals or not key:
        raise _refuse(mark, "expected key=value, such as rl_steps=10 or stages.rl.with.steps=10")
    if len(override) > MAX_OVERRIDE_LENGTH:
        raise _refuse(mark, f"longer than {MAX_OVERRIDE_LENGTH} characters")
    value = parse(text, mark.file, located=False)
    params = root.child("params")
    names = list(params.value) if params and isinstance(params.value, dict) else []
    path = key.split(".")
    if path[0] not in RECIPE_KEYS:
        if key not in names:
            raise _refuse(mark, f"unknown parameter {shown(key)}{meant(key, names)}")
        path = ["params", key]
    if path[0] == "params" and (len(path) < 2 or path[1] not in names):
        raise _refuse(mark, f"unknown parameter {shown('.'.join(path[1:]))}{meant('.'.join(path[1:]), names)}")
    if path[0] in ("name", "extends", "params") and len(path) != (2 if path[0] == "params" else 1):
        raise _refuse(mark, f"{shown(path[0])} has no parts that could be set")
    if path[0] in ("name", "extends", "system"):
        raise _refuse(mark, f"{path[0]!r} cannot be set from outside; write a recipe that extends this one")
    return _put(root, path, value, mark, ())


def _put(node: Node, path: list[str], value: Node, mark: Mark, above: tuple[str, ...]) -> Node:
    """Return `node` with `value` merged at `path` as `extends` does; stages must exist, other mappings are created."""
    if not path:
        return merge(node, value, above)
    step, rest = path[0], path[1:]
    here = ".".join(above) or "the recipe"
    if isinstance(node.value, list):
        if not (step.isdigit() and int(step) < len(node.value)):
            raise _refuse(mark, f"{here} is a list of {len(node.value)}; {shown(step)} is not one of its positions")
        items = list(node.value)
        items[int(step)] = _put(items[int(step)], rest, value, mark, (*above, step))
        return Node(items, node.mark, node.key, size=node.size + value.size)
    entries = dict(node.value) if isinstance(node.value, dict) else {}
    if above and above[-1] == "stages" and step not in entries:
        raise _refuse(mark, f"unknown stage {shown(step)}{meant(step, entries)}")
    if node.value is not None and not isinstance(node.value, dict):
        raise _refuse(mark, f"{here} is {shown(node.plain())} and has no part {shown(step)}")
    if not rest and value.value is None and step in entries and above[:1] != ("params",):
        del entries[step]  # a parameter of the recipe stays with value null: others may refer to it
    else:
        child = entries.get(step, Node(None, mark, mark))
        entries[step] = _put(child, rest, value, mark, (*above, step))
    return mapping(entries, node.mark, node.key)


def override_text(key: str, value: object) -> str:
    """Return the "key=value" override that sets `key` to a plain value, in --set syntax."""
    return f"{key}={json.dumps(value)}"


def _refuse(mark: Mark, message: str) -> RecipeErrors:
    return RecipeErrors([Problem(mark, message)])
