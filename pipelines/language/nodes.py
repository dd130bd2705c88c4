"""Nodes: the values of a document, each with its source location."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipelines.language.problems import Mark


class _Unknown:
    """Placeholder for the value of a failed reference; checks skip it, since its problem is noted."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN = _Unknown()


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its source location; mappings and lists contain nodes."""

    value: Any
    """A scalar, dict[str, Node], list[Node] or UNKNOWN."""
    mark: Mark
    key: Mark | None = None
    """Location of the value's key."""
    origin: str = ""
    """The reference that produced the value, such as "${params.steps}"; empty if written here."""
    size: int = field(default=1, compare=False)
    """Number of nodes below and including this one."""
    home: str = ""
    """File that defines a value produced by a reference; empty if written here."""

    @property
    def file(self) -> str:
        """Return the label of the file that defines the value, or of what set it from outside."""
        return self.home or self.mark.file

    @property
    def where(self) -> Mark:
        """Return the location of the key if there is one, else of the value."""
        return self.key or self.mark

    def plain(self) -> Any:
        """Return the value without locations."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def child(self, name: str) -> Node | None:
        """Return the value under `name`, or None if this is not a mapping or lacks the key."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def find(self, path: tuple[str | int, ...]) -> Node | None:
        """Return the node exactly at `path`, or None."""
        node = self.at(path[:1])
        return (self if not path else None) if node is self else node.find(path[1:])

    def holds_unknown(self) -> bool:
        """Return whether a reference failed somewhere in the value."""
        if isinstance(self.value, dict):
            return any(node.holds_unknown() for node in self.value.values())
        if isinstance(self.value, list):
            return any(node.holds_unknown() for node in self.value)
        return self.value is UNKNOWN

    def at(self, path: tuple[str | int, ...]) -> Node:
        """Return the deepest node on `path`; steps that lead nowhere are skipped."""
        node = self
        for step in path:
            inner: Any = node.value
            if (isinstance(node.value, dict) and step in node.value) or (
                isinstance(node.value, list) and isinstance(step, int) and step < len(node.value)
            ):
                node = inner[step]
        return node


def mapping(entries: dict[str, Node], mark: Mark, key: Mark | None = None) -> Node:
    """Return a mapping node."""
    return Node(entries, mark, key, size=1 + sum(node.size for node in entries.values()))


def sequence(items: list[Node], mark: Mark, key: Mark | None = None) -> Node:
    """Return a list node."""
    return Node(items, mark, key, size=1 + sum(node.size for node in items))
