"""Chat templates rendered as transformers renders them, within bounds of time and size; free of torch.

A template is a program in the model folder: it may loop without end, or double a text until memory is gone. Each step
and each value that it makes is charged to the rendering's budget, before the value is made where that can be known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any

from jinja2 import Template, TemplateError, TemplateRuntimeError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from components.contract.template_budget import CALL_CHARS, MAX_CHARS, Budget, check_growth, size_of

MAX_SOURCE_CHARS = 200_000
BUDGET = "_budget"
ERRORS = (TemplateError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""Errors of a template's own making."""


def render(template: str, messages: Sequence[Mapping[str, Any]], *, generation: bool, **variables: Any) -> str:
    """Return the text of messages; `variables` are what the template reads beside them, such as bos_token.

    Raises one of ERRORS for a template that cannot render them, or not within the bounds.
    """
    asked = {"messages": list(messages), "tools": None, "documents": None, **variables}
    budget = Budget(MAX_CHARS + 200 * size_of(asked, MAX_CHARS))
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


def _budget(context: Context) -> Budget:
    budget = context.parent.get(BUDGET)
    if not isinstance(budget, Budget):
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


def _filtered(node: Any, name: str) -> nodes.Filter:
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
        charged: nodes.Template = _Charges().visit(super()._parse(source, name, filename))
        return charged

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
        check_growth(budget, name, values, kwargs)
        if isinstance(__obj, LoopContext) and args:
            args = (budget.steps(args[0]), *args[1:])
        return budget.value(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _budget(context)
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | list | tuple) and isinstance(times, int):
                    budget.charge(size_of(many, budget.left) * max(0, times))
        elif operator == "**" and not all(isinstance(side, float) or abs(side) <= 64 for side in (left, right)):
            raise TemplateRuntimeError(f"it takes {left!r} to a power that is too large"[:200])
        elif operator == "%" and isinstance(left, str):
            check_growth(budget, "format", [left, right], {})
        elif operator == "+" and isinstance(left, str | list | tuple):
            budget.charge(size_of(left, budget.left))
        return budget.value(super().call_binop(context, operator, left, right))


def _guarded(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that checks its arguments and charges its result."""
    passes = getattr(made, "jinja_pass_arg", None)

    @wraps(made)
    def guarded(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        values = [list(args[0]) if name == "join" and isinstance(args[0], Iterator) else args[0], *args[1:]]
        check_growth(budget, name, values, kwargs)
        first = () if passes is None else (_passed(passes.name, context),)
        return budget.value(made(*first, *values, **kwargs))

    return pass_context(guarded)


def _passed(wanted: str, context: Context) -> Any:
    return {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}[wanted]


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
