"""What a sweep reaches: the parameters that change with the swept ones, and the stages that differ between trials.

All other stages are shared by all trials. Stages are looked at by their names in the file; a repeat differs as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from pipelines.language.nodes import Node
from pipelines.language.uris import is_uri
from pipelines.recipe.matrix import is_none

TRIAL = "trial"
"""The axis of trials."""

_PARAMETER = re.compile(r"params\.([a-z0-9_-]+)(\$\{)?", re.ASCII)
_NAME = re.compile(r"(?<![\w./-])([a-z][a-z0-9_-]*)(\[[^\[\]]*\])?", re.ASCII)
_PICKS_TRIAL = re.compile(r"[\[,]\s*trial\s*=", re.ASCII)
_REFERRING = ("in", "after", "when", "carry")
_MAY_BE_URI = ("in", "carry")


def changed_parameters(params: Mapping[str, Node], swept: Collection[str]) -> set[str]:
    """Return the swept parameters and those that refer to them, at any depth."""
    changed = set(swept)
    while more := {name for name, node in params.items() if name not in changed and mentions(node, changed)}:
        changed |= more
    return changed


def mentions(node: Node | None, params: Collection[str]) -> bool:
    """Return whether a value as written refers to one of the parameters."""
    return any(mentions_in(text.value, params) for text in texts(node))


def mentions_in(text: str, params: Collection[str]) -> bool:
    """Return whether a text refers to one of the parameters; a name put together in the run may be any that fits."""
    for name, goes_on in _PARAMETER.findall(text):
        if name in params or (goes_on and any(other.startswith(name) for other in params)):
            return True
    return "params.${" in text


def texts(node: Node | None) -> Iterator[Node]:
    """Yield every text inside a value."""
    if node is None:
        return
    if isinstance(node.value, str):
        yield node
    elif isinstance(node.value, dict | list):
        for child in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from texts(child)


def changed_stages(stages: Mapping[str, Node], defaults: Node | None, params: Collection[str]) -> set[str]:
    """Return the stages of the file that differ between trials: those that name a parameter, and all behind them.

    A stage leaves the trials by `matrix: none` or `matrix: {trial: none}`, or by picking trials in all its references.
    """
    open_ = {name: node for name, node in stages.items() if isinstance(node.value, dict) and not _leaves(node)}
    changed = {name for name, node in open_.items() if mentions(node, params) or _by_default(node, defaults, params)}
    while more := {name for name, node in open_.items() if name not in changed and _refers(node, changed)}:
        changed |= more
    return changed


def _leaves(node: Node) -> bool:
    matrix = node.child("matrix")
    if matrix is None:
        return False
    trial = matrix.child(TRIAL)
    return is_none(matrix) or (trial is not None and is_none(trial))


def _by_default(node: Node, defaults: Node | None, params: Collection[str]) -> bool:
    """Return whether the recipe's defaults bring a parameter into a stage, or into one of a repeat."""
    if defaults is None or not isinstance(defaults.value, dict):
        return False
    inner = node.child("stages")
    if inner is not None and isinstance(inner.value, dict):
        return any(_by_default(child, defaults, params) for child in inner.value.values())
    uses, common = node.child("uses"), defaults.child("with")
    own = common.child(str(uses.value)) if uses is not None and common is not None else None
    return mentions(own, params) or any(
        mentions(child, params) for key, child in defaults.value.items() if key != "with"
    )


def _refers(node: Node, stages: Collection[str]) -> bool:
    """Return whether a stage, or one inside of a repeat, refers to one of the stages without picking a trial."""
    parts = [(key, node.child(key)) for key in _REFERRING]
    inner = node.child("stages")
    within = inner.value.values() if inner is not None and isinstance(inner.value, dict) else ()
    if any(isinstance(child.value, dict) and _refers(child, stages) for child in within):
        return True
    return any(_names_one(text.value, stages, uri=key in _MAY_BE_URI) for key, part in parts for text in texts(part))


def _names_one(text: str, stages: Collection[str], *, uri: bool) -> bool:
    if uri and is_uri(text):
        return False
    return any(name in stages and not _PICKS_TRIAL.search(cell) for name, cell in _NAME.findall(text))
