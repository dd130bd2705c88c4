"""Chat templates rendered as transformers renders them, within bounds of time and size; free of torch.

A template is a program in the model folder: it may loop without end, or double a text until memory is gone. Each step
and each value that it makes is charged to the rendering's budget, before the value is made where that can be known.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any

from jinja2 import Template, TemplateError, TemplateRuntimeError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MAX_SOURCE_CHARS = 200_000
MAX_CHARS = 1 << 25
"""Characters that one rendering may make, intermediate ones included, beside 200 for each of its input."""
STEP_CHARS = 50
CALL_CHARS = 200
"""Characters that one step of a loop, or one call, counts for."""
ITEM_CHARS = 16
"""The same for an item of a list or mapping."""
MAX_SECONDS = 3.0
MAX_NUMBER = 100_000
"""Largest width, count or indent that a template may give to a filter or method."""
WIDE = re.compile(r"[%:{][^a-zA-Z%{}]*\d{6,}|:[^{}]*\{|%[-+ #0]*\*|%\d*\.\*")
"""A width in a format that may make any amount of text."""
BUDGET = "_budget"
ERRORS = (TemplateError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""Errors of a template's own making."""


def render(template: str, messages: Sequence[Mapping[str, Any]], *, generation: bool, **variables: Any) -> str:
    """Return the text of messages; `variables` are what the template reads beside them, such as bos_token.

    Raises one of ERRORS for a template that cannot render them, or not within the bounds.
    """
    asked = {"messages": list(messages), "tools": None, "documents": None, **variables}
    budget = _Budget(MAX_CHARS + 200 * _size(asked, MAX_CHARS))
    return compiled(template).render(**asked, add_generation_prompt=generation, **{BUDGET: budget})


@lru_cache(maxsize=32)
def compiled(template: str) -> Template:
    """Return a template ready to render; raise one of ERRORS for one that is malformed or too long."""
    if len(template) > MAX_SOURCE_CHARS:
        raise TemplateRuntimeError(f"it is {len(template):,} characters long, where {MAX_SOURCE_CHARS:,} are allowed")
    try:
        return _Environment().from_string(template)
    except (SyntaxError, MemoryError) as error:  # of Python's compiler, for expressions nested too deeply
        raise TemplateRuntimeError(f"it is nested too deeply ({type(error).__name__})") from error


class _Budget:
    """What one rendering has left."""

    def __init__(self, chars: int) -> None:
        self.left = self.chars = chars
        self.deadline = time.monotonic() + MAX_SECONDS

    def charge(self, chars: int) -> None:
        self.left -= chars
        if self.left < 0:
            raise TemplateRuntimeError(f"it takes more steps or makes more text than {self.chars:,} characters")
        if time.monotonic() > self.deadline:
            raise TemplateRuntimeError(f"it is not done after {MAX_SECONDS:g} seconds")

    def value(self, value: Any) -> Any:
        """Charge a value that was made, and return it."""
        self.charge(1 + _size(value, self.left))
        return value

    def steps(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.charge(STEP_CHARS)
            yield value


def _size(value: Any, most: int) -> int:
    """Return the characters and items of a value, by all paths to them; a little over `most` where it is larger."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    total, waiting = 0, [value]
    while waiting and total <= most:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Mapping):
            total += ITEM_CHARS * (1 + len(item))
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            total += ITEM_CHARS * (1 + len(item))
            waiting += item
        else:
            total += 8
    return total


def _budget(context: Context) -> _Budget:
    budget = context.parent.get(BUDGET)
    if not isinstance(budget, _Budget):
        raise TemplateRuntimeError("it renders outside its budget")
    return budget


@pass_context
def _charged(context: Context, value: Any) -> Any:
    return _budget(context).value(value)


@pass_context
def _stepped(context: Context, values: Any) -> Iterator[Any]:
    return _budget(context).steps(values)


@pass_context
def _joined(context: Context, parts: Sequence[Any]) -> str:
    budget = _budget(context)
    for part in parts:
        budget.value(part)
    return "".join(map(str, parts))


class _Charges(NodeTransformer):
    """Puts a charge around whatever makes a value or takes a step."""

    def generic_visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        node = super().generic_visit(node, *args, **kwargs)
        if isinstance(node, nodes.For):
            node.iter = _filtered(node.iter, "_stepped")
        elif isinstance(node, nodes.Concat):
            return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_joined")
        elif isinstance(node, nodes.Output):
            node.nodes = [_counted(child) for child in node.nodes]
        elif isinstance(node, nodes.List | nodes.Dict | nodes.Compare | nodes.Test) or (
            (isinstance(node, nodes.Tuple) and node.ctx == "load")
            or (isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice))
        ):
            return _filtered(node, "_charged")
        return node


def _counted(child: nodes.Expr) -> nodes.Expr:
    if not isinstance(child, nodes.TemplateData):
        return child  # `finalize` charges it
    return nodes.Const(child.data, lineno=child.lineno)


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """`{% generation %}`, which marks the assistant's text and changes nothing of it."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Namespace(Namespace):
    """A namespace that stores no underscored attribute, as in transformers."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that namespace(self=...) works
        self, *values = args
        attributes = dict(*values, **kwargs)
        for name in attributes:
            _check_attribute(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _check_attribute(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise TemplateRuntimeError(f"it stores the attribute {name!r}, which begins with an underscore")


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja as transformers sets it up, with a charge for every value."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants are made while rendering, under the budget
            extensions=[_Generation, loopcontrols],
            finalize=_charged,
        )
        self.filters["tojson"] = _tojson
        for name in ("urlize", "pprint", "xmlattr"):
            del self.filters[name]
        self.filters = {name: _guarded(name, made) for name, made in self.filters.items()}
        self.filters |= {"_charged": _charged, "_stepped": _stepped, "_joined": _joined}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _raise, "strftime_now": _now, "namespace": _Namespace, "dict": _dict}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Charges().visit(super()._parse(source, name, filename))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(__context)
        budget.charge(CALL_CHARS)
        if __obj is __self.globals["range"]:
            values: Any = super().call(__context, __obj, *args, **kwargs)
            budget.charge(len(values))
            return values
        name = getattr(__obj, "__name__", "")
        owner = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        values = [owner, *args] if isinstance(owner, str) else args
        _check_growth(budget, name, values, kwargs)
        if isinstance(__obj, LoopContext) and args:
            args = (budget.steps(args[0]), *args[1:])
        return budget.value(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _budget(context)
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int):
                    budget.charge(_size(many, budget.left) * max(0, times))
        elif operator == "**" and not all(isinstance(side, float) or abs(side) <= 64 for side in (left, right)):
            raise TemplateRuntimeError(f"it takes {left!r} to a power that is too large"[:200])
        elif operator == "%" and isinstance(left, str):
            _check_growth(budget, "format", [left, right], {})
        elif operator == "+" and isinstance(left, str | list | tuple):
            budget.charge(_size(left, budget.left))
        return budget.value(super().call_binop(context, operator, left, right))


def _guarded(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that checks its arguments and charges its result."""
    passes = getattr(made, "jinja_pass_arg", None)

    @wraps(made)
    def guarded(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        values = [list(args[0]) if name == "join" and isinstance(args[0], Iterator) else args[0], *args[1:]]
        _check_growth(budget, name, values, kwargs)
        first = () if passes is None else (_passed(passes.name, context),)
        return budget.value(made(*first, *values, **kwargs))

    return pass_context(guarded)


def _passed(wanted: str, context: Context) -> Any:
    return {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}[wanted]


def _check_growth(budget: _Budget, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse what a filter or method of this name would make far larger than its arguments, before it is made."""
    for value in (*values[1:], *named.values()):
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > MAX_NUMBER:
                raise TemplateRuntimeError(
                    f"it gives {str(number)[:20]} to {name!r}, at most {MAX_NUMBER:,} is allowed"
                )
    first = values[0] if values else None
    if name == "replace" and isinstance(first, str) and len(values) > 2:
        budget.charge(first.count(str(values[1])) * len(str(values[2])))
    elif name == "join":
        glue, parts = (values[1] if len(values) > 1 else named.get("d", "")), first
        if isinstance(first, str) and len(values) > 1 and not isinstance(values[1], str):  # of the method
            glue, parts = first, values[1]
        if isinstance(parts, Sequence):
            budget.charge(len(parts) * len(str(glue)) + _size(parts, budget.left))
    elif name == "sum" and not isinstance(named.get("start", 0), int | float):
        raise TemplateRuntimeError("it sums other things than numbers")
    elif name in ("format", "format_map") and (name == "format_map" or WIDE.search(str(first))):
        raise TemplateRuntimeError("it formats text with a width that has no bound")
    elif name == "strftime_now" and WIDE.search(str(first)):
        raise TemplateRuntimeError("it formats the date with a width that has no bound")


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _raise(message: Any) -> None:
    raise TemplateError("" if isinstance(message, Undefined) else str(message))


def _now(format: str) -> str:
    return datetime.now().strftime(format)
