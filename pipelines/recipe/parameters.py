"""Parameters of a recipe: values that can be set at trigger time, on every engine.

Written as `name: value`, or typed as `name: {default, title, doc, min, max, choices, type}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, ValidationError

from components.contract.errors import nearest
from pipelines.language.find import is_name
from pipelines.language.nodes import UNKNOWN, Node
from pipelines.language.problems import Problems, meant, shown
from pipelines.language.references import Resolver, Scope
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.grammar import RECIPE_KEYS

_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "str": ("text", (str,)),
    "list": ("a list", (list,)),
}
_TYPED_FORM = ("default", "title", "doc", "min", "max", "choices", "type")


class ParameterWords(BaseModel):
    """The typed form of a parameter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: Any
    title: str = ""
    doc: str = ""
    min: StrictInt | StrictFloat | None = None
    max: StrictInt | StrictFloat | None = None
    choices: Annotated[list[Any], Field(min_length=1)] | None = None
    type: Literal["int", "float", "bool", "str", "list", "any"] = "any"


@dataclass(frozen=True)
class Parameter:
    """One settable value of a recipe, as trigger forms show it."""

    name: str
    value: Any
    words: ParameterWords


def read_parameters(node: Node | None, seed: int, resolver: Resolver, problems: Problems) -> dict[str, Node]:
    """Return name -> value node, references among parameters resolved; a failed one is UNKNOWN."""
    if node is None or node.value is None or node.value is UNKNOWN:
        return {}
    if not isinstance(node.value, dict):
        problems.add(node.mark, f"params: got {shown(node.plain())}, expected 'name: value' lines")
        return {}
    for name, child in node.value.items():
        if not is_name(name) or name in RECIPE_KEYS:
            reason = "is a word of the recipe language" if name in RECIPE_KEYS else "is not a name (a-z, 0-9, '-', '_')"
            problems.add(child.where, f"params: {shown(name)} {reason}")
    return _Order(node.value, seed, resolver, problems).all()


def describe_parameters(node: Node | None, values: Mapping[str, Node], problems: Problems) -> tuple[Parameter, ...]:
    """Check typed parameters against their own bounds and return all of them."""
    described = []
    for name, child in (node.value if node and isinstance(node.value, dict) else {}).items():
        value = values[name].plain()
        words = _words(name, child, problems)
        if words is not None and value is not UNKNOWN:
            _check(name, values[name], words, problems)
            described.append(Parameter(name, value, words))
    return tuple(described)


class _Order:
    """Resolves parameters in the order in which they refer to one another."""

    def __init__(self, nodes: Mapping[str, Node], seed: int, resolver: Resolver, problems: Problems) -> None:
        self._nodes = nodes
        self._seed = seed
        self._resolver = resolver
        self._problems = problems
        self._done: dict[str, Node] = {}
        self._open: list[str] = []

    def all(self) -> dict[str, Node]:
        return {name: self.value(name) for name in self._nodes}

    def value(self, name: str) -> Node:
        if name in self._done:
            return self._done[name]
        node = self._nodes[name]
        if _is_typed(node):
            node = node.value["default"]
        if name in self._open:
            circle = " -> ".join([*self._open[self._open.index(name) :], name])
            self._problems.add(node.mark, f"params refer to one another in a circle: {circle}")
            return Node(UNKNOWN, node.mark)
        self._open.append(name)
        names = {"params": _Lazy(self), "seed": self._seed}
        missing = dict.fromkeys(("matrix", "round"), "parameters cannot refer to the matrix or the round of a repeat")
        self._done[name] = self._resolver.resolve(node, Scope(names, missing))
        self._open.pop()
        return self._done[name]


class _Lazy(Mapping[str, Node]):
    """Parameters by name, each resolved on first use."""

    def __init__(self, order: _Order) -> None:
        self._order = order

    def __getitem__(self, name: str) -> Node:
        return self._order.value(name)

    def __contains__(self, name: object) -> bool:
        return name in self._order._nodes

    def __iter__(self) -> Any:
        return iter(self._order._nodes)

    def __len__(self) -> int:
        return len(self._order._nodes)


def _is_typed(node: Node) -> bool:
    return isinstance(node.value, dict) and "default" in node.value


def _misspelt_form(entries: Mapping[str, Node]) -> list[str] | None:
    """Return the invalid keys of a mapping intended as a typed form without a default; None for other mappings."""
    known = [key for key in entries if key in _TYPED_FORM]
    strange = [key for key in entries if key not in _TYPED_FORM]
    return strange if known and all(nearest(key[:99], _TYPED_FORM) for key in strange) else None


def _words(name: str, node: Node, problems: Problems) -> ParameterWords | None:
    if not _is_typed(node):
        if isinstance(node.value, dict) and (strange := _misspelt_form(node.value)) is not None:
            for key in strange:
                problems.add(node.value[key].where, f"params.{name}: unknown key {shown(key)}{meant(key, _TYPED_FORM)}")
            if not strange:
                problems.add(node.where, f"params.{name}: 'default' is missing from its typed form")
            return None
        return ParameterWords(default=node.plain())
    try:
        return ParameterWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what=f"params.{name}.", schema=ParameterWords)
        return None


def _check(name: str, node: Node, words: ParameterWords, problems: Problems) -> None:
    value = node.plain()
    if words.type != "any":
        expected, types = _TYPES[words.type]
        if not isinstance(value, types) or (isinstance(value, bool) and words.type != "bool"):
            problems.add(node.mark, f"params.{name}: got {shown(value)}, expected {expected}")
            return
    if words.choices is not None and value not in words.choices:
        choices = [choice if isinstance(choice, str) else shown(choice) for choice in words.choices]
        near = nearest(str(value)[:99], choices)
        hint = f"; did you mean {near!r}?" if near else ""
        problems.add(node.mark, f"params.{name}: got {shown(value)}, expected one of {', '.join(choices)}{hint}")
    if words.min is not None and words.max is not None and words.min > words.max:
        problems.add(node.mark, f"params.{name}: its min {words.min} is above its max {words.max}")
        return
    for bound, text in ((words.min, "at least"), (words.max, "at most")):
        if bound is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.add(node.mark, f"params.{name}: got {shown(value)}, expected a number ({text} {bound})")
        elif value < bound if text == "at least" else value > bound:
            problems.add(node.mark, f"params.{name}: got {shown(value)}, expected {text} {bound}")
