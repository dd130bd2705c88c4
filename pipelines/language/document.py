"""YAML documents with a source location for every value.

Built from the parser's events rather than its composer, so that depth and size are checked before memory is spent: a
recipe may be untrusted. Scalars follow YAML 1.2 (`on`, `1:30` and dates are text, `1e-4` is a number).

Not ruamel.yaml: it reads dates, hexadecimal, octal and infinite numbers, and detects duplicate keys in its composer, so
scalars, bounds and messages would still be needed here; its events alone take 5 times as long as `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from components.contract.small_files import read_small_file
from components.contract.terminal import visible_line
from pipelines.language.nodes import Node, mapping, sequence
from pipelines.language.problems import Mark, Problem, RecipeErrors, shown

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 50_000
MAX_DIGITS = 18

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_REWORDED = {
    "did not find expected ',' or '}'": "a '}' or ',' is missing",
    "did not find expected ',' or ']'": "a ']' or ',' is missing",
    "did not find expected key": "expected another 'key: value' here (check the indentation)",
    "did not find expected '-' indicator": "expected another '- item' here (check the indentation)",
    "mapping values are not allowed in this context": "a second ': ' on the line (quote the value) or a wrong indent",
    "could not find expected ':'": "a ':' is missing after this key",
    "found unexpected end of stream": "a quote is not closed",
    "found unexpected ':'": "unexpected ':' (quote the value)",
    "did not find expected node content": "a value is missing, or a bracket is not closed",
    "found undefined alias": "an alias (*name) without its anchor (&name); quote text that starts with '*'",
}


@dataclass(frozen=True)
class Document:
    """A parsed file."""

    path: Path
    label: str
    """The path as messages show it."""
    text: str
    root: Node


def read_document(path: Path) -> Document:
    """Read and parse a YAML file whose root is a mapping; raise RecipeErrors with each mistake's location."""
    label = display_path(path)
    try:
        data = read_small_file(path, MAX_BYTES)
    except ValueError as error:
        raise RecipeErrors([Problem(Mark(label), f"cannot be read: {error}")]) from None
    text = _decode(data, label)
    root = parse(text, label)
    if root.value is None:
        raise RecipeErrors([Problem(Mark(label, 1, 1), "the file is empty; expected 'name: ...' and 'stages: ...'")])
    if not isinstance(root.value, dict):
        raise RecipeErrors([Problem(root.mark, "expected 'key: value' lines at the top of the file")])
    return Document(path, label, text, root)


def display_path(path: Path) -> str:
    """Return a path relative to the working directory when it lies below."""
    absolute = path.absolute()
    shortest = absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else path
    return visible_line(str(shortest))


def parse(text: str, label: str, *, located: bool = True) -> Node:
    """Parse one YAML document; with `located` false (a command-line value) locations name only `label`."""
    try:
        return _Builder(label, located).build(text)
    except yaml.reader.ReaderError as error:
        mark = _mark_at(text, error.position, label) if located else Mark(label)
        message = f"character U+{ord(error.character) if isinstance(error.character, str) else error.character:04X}"
        raise RecipeErrors([Problem(mark, f"{message} is not allowed; recipes are plain text")]) from None
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(label, place.line + 1, place.column + 1) if place and located else Mark(label)
        raise RecipeErrors([Problem(mark, f"not valid YAML: {_reworded(error, text)}")]) from None


def _decode(data: bytes, label: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        mark = Mark(label, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        raise RecipeErrors([Problem(mark, f"byte 0x{data[error.start]:02x} is not UTF-8 text")]) from None


def _mark_at(text: str, position: int, label: str) -> Mark:
    before = text[:position]
    return Mark(label, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _reworded(error: yaml.MarkedYAMLError, text: str) -> str:
    problem = str(error.problem)
    place = error.problem_mark
    if place and problem == "found character that cannot start any token":
        line = text.splitlines()[place.line : place.line + 1]
        found = line[0][place.column : place.column + 1] if line else ""
        if found == "\t":
            return "a tab is used for indentation; use spaces"
        return f"a value cannot start with {found!r}; put it in quotes"
    return _REWORDED.get(problem, f"{problem} {error.context or ''}".strip())


class _Refused(Exception):
    """Exits the event loop with the problem that stops parsing."""

    def __init__(self, mark: Mark, message: str) -> None:
        self.problem = Problem(mark, message)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    value: dict[str, Node] | list[Node]
    mark: Mark
    key: Mark | None
    anchor: str | None
    pending: tuple[str, Mark] | None = None
    """In a mapping: the key whose value comes next."""


class _Builder:
    """Turns parser events into nodes with an explicit stack: a hostile file cannot exhaust the C stack."""

    def __init__(self, label: str, located: bool) -> None:
        self._label = label
        self._located = located
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._nodes = 0

    def build(self, text: str) -> Node:
        """Return the root of the only document; an empty one is a null."""
        documents = 0
        try:
            for event in self._events(text):
                mark = self._mark(event)
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        raise _Refused(mark, "a second document ('---') starts here; a recipe is one document")
                elif isinstance(event, yaml.NodeEvent):
                    self._node(event, mark)
                elif isinstance(event, yaml.CollectionEndEvent):
                    self._close()
        except _Refused as refused:
            raise RecipeErrors([refused.problem]) from None
        return self._root or Node(None, Mark(self._label, 1, 1) if self._located else Mark(self._label))

    def _events(self, text: str) -> Iterator[yaml.Event]:
        events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        return events

    def _mark(self, event: yaml.Event) -> Mark:
        if not self._located:
            return Mark(self._label)
        return Mark(self._label, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: yaml.NodeEvent, mark: Mark) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.pending is None:
            top.pending = (self._key(event, mark, top.value), mark)
            return
        key = top.pending[1] if top is not None and top.pending else None
        if isinstance(event, yaml.AliasEvent):
            self._add(self._alias(event, mark, key))
            return
        if event.tag not in (None, "!"):
            raise _Refused(
                mark, f"tag {shown(event.tag)} is not allowed; values are plain text, numbers, lists, mappings"
            )
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self._scalar(event, mark), mark, key)
            if event.anchor:
                self._anchors[event.anchor] = node
            self._add(node)
            return
        if len(self._stack) >= MAX_DEPTH:
            raise _Refused(mark, f"values are nested more than {MAX_DEPTH} deep")
        value: dict[str, Node] | list[Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Open(value, mark, key, event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        build: Any = mapping if isinstance(done.value, dict) else sequence
        node = build(done.value, done.mark, done.key)
        if done.anchor:
            self._anchors[done.anchor] = node
        self._nodes -= node.size - 1  # its children were counted when they were added
        self._add(node)

    def _add(self, node: Node) -> None:
        self._nodes += node.size
        if self._nodes > MAX_NODES:
            raise _Refused(node.mark, f"the file unfolds to more than {MAX_NODES:,} values (are aliases nested?)")
        if not self._stack:
            self._root = node
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(node)
        else:
            assert top.pending is not None
            top.value[top.pending[0]] = node
            top.pending = None

    def _alias(self, event: yaml.AliasEvent, mark: Mark, key: Mark | None) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _Refused(mark, f"alias '*{event.anchor}' has no anchor '&{event.anchor}' before it")
        return replace(node, mark=mark, key=key)

    def _key(self, event: yaml.NodeEvent, mark: Mark, siblings: dict[str, Node]) -> str:
        plain = isinstance(event, yaml.ScalarEvent) and event.tag in (None, "!")
        value = self._scalar(event, mark) if plain else None
        if value == "<<":
            raise _Refused(mark, "merge keys ('<<') are not used in recipes; use 'extends' or 'defaults'")
        if not isinstance(value, str):
            what = f"{shown(event.value)}" if isinstance(event, yaml.ScalarEvent) else "a list, mapping or alias"
            raise _Refused(mark, f"a key must be text, and this is {what} (put it in quotes if it is meant as text)")
        if value in siblings:
            first = siblings[value].where
            raise _Refused(mark, f"key {shown(value)} is given twice (first at line {first.line})")
        return value

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> Any:
        text = event.value
        if _CONTROL.search(text):
            raise _Refused(mark, f"{shown(text)} holds a control character")
        if not event.implicit[0]:
            return text
        return self._plain(text, mark)

    def _plain(self, text: str, mark: Mark) -> Any:
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _INT.fullmatch(text):
            if len(text) > MAX_DIGITS:
                raise _Refused(mark, f"{shown(text)} has more than {MAX_DIGITS} digits (quote it if it is text)")
            return int(text.rstrip("_"))
        if _NOT_FINITE.fullmatch(text):
            raise _Refused(mark, f"{text} is not a finite number")
        if _FLOAT.fullmatch(text):
            value = float(text.replace("_", ""))
            if value in (float("inf"), float("-inf")):
                raise _Refused(mark, f"{shown(text)} is too large for a number")
            return value
        return text
