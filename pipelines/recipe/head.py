"""The head of a recipe: its name, summary, seed, and the keys of `defaults`."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract.registry import components
from pipelines.language.find import is_name
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.recipe.grammar import DEFAULT_KEYS, MAX_SEED, MAX_SUMMARY_LENGTH, RECIPE_KEYS

RENAMED = {"triggered_by": "write 'schedule: {on: [models:/name@alias]}'"}


@dataclass(frozen=True)
class Head:
    """A recipe's own description; invalid parts have placeholders, and are among the problems."""

    name: str
    summary: str
    seed: int


def read_head(root: Node, problems: Problems) -> Head:
    """Return the head of a recipe; mistakes in it, in its keys or in `defaults` are added to the problems."""
    strange = [key for key in root.value if key not in RECIPE_KEYS]
    for key in strange:
        problems.unknown(root.value[key].where, "key of a recipe:", key, RECIPE_KEYS, RENAMED.get(key, ""))
    head = Head(
        name=_name(root, problems, ask=not strange),
        summary=_summary(root.child("summary"), problems),
        seed=_seed(root.child("seed"), problems),
    )
    _check_defaults(root.child("defaults"), problems)
    return head


def _name(root: Node, problems: Problems, *, ask: bool) -> str:
    node = root.child("name")
    if node is None:
        if ask:  # else one of the unknown keys is probably the misspelt name
            problems.add(root.mark, "'name' is missing: what is the recipe called?")
    elif not isinstance(node.value, str) or not is_name(node.value):
        expected = "expected a name (a-z first, then a-z, 0-9, '-', '_'; at most 63)"
        problems.add(node.mark, f"name: got {shown(node.plain())}, {expected}")
    return str(node and node.value)


def _summary(node: Node | None, problems: Problems) -> str:
    if node is not None and not (isinstance(node.value, str) and len(node.value) <= MAX_SUMMARY_LENGTH):
        expected = f"expected text of at most {MAX_SUMMARY_LENGTH}"
        problems.add(node.mark, f"summary: got {shown(node.plain())}, {expected}")
    return str(node.value if node else "")


def _seed(node: Node | None, problems: Problems) -> int:
    if node is None:
        return 0
    if type(node.value) is int and 0 <= node.value <= MAX_SEED:
        return node.value
    problems.add(node.mark, f"seed: got {shown(node.plain())}, expected a whole number 0 to {MAX_SEED}")
    return 0


def _check_defaults(node: Node | None, problems: Problems) -> None:
    if node is None or node.value is None:
        return
    if not isinstance(node.value, dict):
        problems.add(node.mark, f"defaults: got {shown(node.plain())}, expected 'pool: ...' and more")
        return
    for key, child in node.value.items():
        if key not in DEFAULT_KEYS:
            problems.unknown(child.where, "key of defaults:", key, DEFAULT_KEYS)
    params = node.child("with")
    if params is None or params.value is None:
        return
    if not isinstance(params.value, dict):
        expected = "expected 'component: {...}' lines"
        problems.add(params.mark, f"defaults.with: got {shown(params.plain())}, {expected}")
        return
    for key, child in params.value.items():
        if key not in components():
            problems.unknown(child.where, "component in defaults.with:", key, components().names())
        elif not isinstance(child.value, dict):
            expected = "expected 'parameter: value' lines"
            problems.add(child.mark, f"defaults.with.{key}: got {shown(child.plain())}, {expected}")
