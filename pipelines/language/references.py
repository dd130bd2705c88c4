"""References `${...}` inside values: to parameters, the matrix cell, the round of a repeat and the seed.

A reference that is a whole value keeps its type; inside text it becomes text. References nest
(`${params.lr_${matrix.size}}`), parameters may refer to one another, and `$${` stands for a plain `${`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.language.document import MAX_NODES
from pipelines.language.nodes import UNKNOWN, Node, mapping, sequence
from pipelines.language.problems import Mark, Problems, meant, shown

MAX_TEXT = 65_536
MAX_NESTING = 8


class _Failed(Exception):
    """A reference cannot be resolved; the message gives the reason."""


class _Noted(Exception):
    """A reference leads to a value whose problem is already noted."""


@dataclass
class Scope:
    """What references can name: nested mappings of nodes and plain values."""

    names: Mapping[str, Any]
    missing: Mapping[str, str]
    """Why some roots are missing: {"matrix": "this stage has no matrix"}."""

    def look_up(self, name: str) -> Any:
        """Return the value (a Node or a plain one) behind a dotted name."""
        value: Any = self.names
        steps = name.split(".")
        for index, step in enumerate(steps):
            value = value.value if isinstance(value, Node) else value
            if value is UNKNOWN:
                raise _Noted
            if not isinstance(value, Mapping) or step not in value:
                raise _Failed(self._unknown(steps, index, value))
            value = value[step]
        return value

    def _unknown(self, steps: list[str], index: int, value: Any) -> str:
        prefix = "".join(f"{step}." for step in steps[:index])
        if index == 0 and steps[0] in self.missing:
            return self.missing[steps[0]]
        if not isinstance(value, Mapping):
            return f"{prefix[:-1]!r} is {shown(value)} and has no part {steps[index]!r}"
        name, known = prefix + steps[index], [prefix + key for key in value]
        return f"unknown name {shown(name)}{meant(name, known)}"


class Resolver:
    """Replaces the references of nodes; counts the nodes it makes, so that no document expands without bound."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._made = 0

    def resolve(self, node: Node, scope: Scope) -> Node:
        """Return `node` without references; a value whose reference fails becomes UNKNOWN, its problem noted."""
        if isinstance(node.value, str):
            return self._text(node, scope) if "$" in node.value else node
        if isinstance(node.value, dict):
            entries = {name: self.resolve(child, scope) for name, child in node.value.items()}
            if all(entries[name] is child for name, child in node.value.items()):
                return node
            return mapping(entries, node.mark, node.key)
        if isinstance(node.value, list):
            items = [self.resolve(child, scope) for child in node.value]
            if all(new is old for new, old in zip(items, node.value, strict=True)):
                return node
            return sequence(items, node.mark, node.key)
        return node

    def _text(self, node: Node, scope: Scope) -> Node:
        try:
            value, origin = self._expand(node.value, scope, 0)
        except _Noted:
            return replace(node, value=UNKNOWN)
        except _Failed as failed:
            self._problems.add(node.mark, f"{shown(node.value)}: {failed}")
            return replace(node, value=UNKNOWN)
        home = ""
        if isinstance(value, Node) and not isinstance(value.value, dict | list):
            value, home = value.value, value.file
        if isinstance(value, Node):
            self._count(value.size, node.mark)
            return Node(_moved(value, node.mark, origin).value, node.mark, node.key, origin, value.size)
        self._count(1 + (len(value) // 64 if isinstance(value, str) else 0), node.mark)
        return replace(plain_node(value, node.mark, node.key, origin), home=home)

    def _expand(self, text: str, scope: Scope, depth: int) -> tuple[Any, str]:
        """Return the value of a text, and the reference if the whole text is one (else "")."""
        if depth > MAX_NESTING:
            raise _Failed(f"references are nested more than {MAX_NESTING} deep")
        if text.startswith("${") and _end(text, 0) == len(text):
            name, _ = self._expand(text[2:-1].strip(), scope, depth + 1)
            value = scope.look_up(str(name))
            if (value.value if isinstance(value, Node) else value) is UNKNOWN:
                raise _Noted
            return value, text
        parts: list[str] = []
        position = length = 0
        while (start := text.find("$", position)) >= 0:
            parts.append(text[position:start])
            if text.startswith("$${", start):
                parts.append("${")
                position = start + 3
            elif text.startswith("${", start):
                position = _end(text, start)
                parts.append(_spelled(*self._expand(text[start:position], scope, depth + 1)))
            else:
                parts.append("$")
                position = start + 1
            length += sum(map(len, parts[-2:]))
            if length > MAX_TEXT:
                raise _Failed(f"the text grows beyond {MAX_TEXT:,} characters")
        return "".join([*parts, text[position:]]), ""

    def _count(self, nodes: int, mark: Mark) -> None:
        self._made += nodes
        if self._made > 20 * MAX_NODES:
            self._problems.add(mark, "references unfold to too many values")
            self._problems.stop()


def plain_node(value: Any, mark: Mark, key: Mark | None = None, origin: str = "") -> Node:
    """Return nodes for a plain value, all at one location."""
    if isinstance(value, Mapping):
        children = {str(name): plain_node(child, mark, mark, origin) for name, child in value.items()}
        return replace(mapping(children, mark, key), origin=origin)
    if isinstance(value, list | tuple):
        return replace(sequence([plain_node(child, mark, None, origin) for child in value], mark, key), origin=origin)
    return Node(value, mark, key, origin)


def _moved(node: Node, mark: Mark, origin: str) -> Node:
    """Return the value of a parameter, located where it is used."""
    return plain_node(node.plain(), mark, node.key, origin)


def _end(text: str, start: int) -> int:
    """Return the position after the '}' that closes the reference at `start`."""
    depth, position = 0, start
    while position < len(text):
        if text.startswith("${", position):
            depth += 1
            position += 2
            continue
        if text[position] == "}":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    raise _Failed("a '${' is not closed by '}' (write '$${' for a plain '${')")


def _spelled(value: Any, reference: str) -> str:
    value = value.value if isinstance(value, Node) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    what = "nothing (null)" if value is None else "a list or mapping"
    raise _Failed(f"{reference} is {what} and cannot stand inside text")
