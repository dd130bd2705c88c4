"""Expressions of `when` and `gate`: comparisons over metrics and parameters, evaluated without `eval`.

    evaluate-final.pass_at_1_A >= 0.9 and not rl[method=dapo].entropy < 0.1

Comparisons (also chained), and/or/not, + - * /, parentheses, numbers, quoted text, true/false, and dotted names. Names
may contain '-', as stage names do, so a subtraction needs spaces around its minus.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.contract.python_text import parse_expression

Value = float | int | bool | str
Lookup = Callable[[str], Value]

MAX_LENGTH = 1000
MAX_NESTING = 30

_WORD = r"[A-Za-z_][\w@]*(?:-[\w@]+)*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<text>'[^'\\\n]*'|"[^"\\\n]*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<name>{_WORD}(?:\[[^\[\]'"\n]*\])?(?:\.{_WORD})*)
    |(?P<operator><=|>=|==|!=|[<>()+*/-])""",
    re.VERBOSE | re.ASCII,
)
_KEYWORDS = {"and": "and", "or": "or", "not": "not", "true": "True", "false": "False", "True": "True", "False": "False"}
_INSTEAD = {"=": "'=='", "&": "'and'", "|": "'or'", "!": "'not' or '!='"}

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class ExpressionError(InputError):
    """The expression is malformed, or its values have the wrong type; `position` counts characters from 0."""

    def __init__(self, message: str, position: int = 0) -> None:
        self.position = position
        super().__init__(message)


@dataclass(frozen=True)
class _Span:
    name: str
    start: int
    end: int


class Expression:
    """A parsed expression; evaluating it calls nothing but the given lookup."""

    def __init__(self, source: str) -> None:
        """Parse `source`; raise ExpressionError with the position of the problem."""
        self.source = source
        spans, python = _tokenize(source)
        self._spans = spans
        self._names = {f"n{index}": span.name for index, span in enumerate(spans)}
        try:
            self._tree = parse_expression(python.strip() or "()")
        except SyntaxError:
            raise ExpressionError(f"{source!r} is not a complete expression") from None
        _check(self._tree, source)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the distinct dotted names in order of appearance."""
        return tuple(dict.fromkeys(span.name for span in self._spans))

    @property
    def is_condition(self) -> bool:
        """Return whether the result can be true or false, judged by its outermost operator."""
        tree = self._tree
        if isinstance(tree, ast.Constant):
            return isinstance(tree.value, bool)
        negation = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        return negation or isinstance(tree, ast.BoolOp | ast.Compare | ast.Name)

    def evaluate(self, lookup: Lookup) -> Value:
        """Return the value; `lookup` maps a name to its value and raises InputError for an unknown one."""
        try:
            value: Value = self._value(self._tree, lookup)
            return value
        except ZeroDivisionError:
            raise ExpressionError(f"{self.source!r} divides by zero") from None
        except OverflowError:
            raise ExpressionError(f"{self.source!r}: a number is too large") from None

    def holds(self, lookup: Lookup) -> bool:
        """Return whether the condition is true; raise ExpressionError when its value is neither true nor false."""
        value = self.evaluate(lookup)
        if not isinstance(value, bool):
            raise ExpressionError(f"{self.source!r} gives {value!r}, and a condition is true or false")
        return value

    def replace(self, names: Mapping[str, str]) -> str:
        """Return the source with some names replaced by other names or literals; the rest stays as written."""
        parts, position = [], 0
        for span in self._spans:
            parts += [self.source[position : span.start], names.get(span.name, span.name)]
            position = span.end
        return "".join([*parts, self.source[position:]])

    def _value(self, node: ast.expr, lookup: Lookup) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return lookup(self._names[node.id])
        if isinstance(node, ast.BoolOp):
            return self._boolean(node, lookup)
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return not self._truth(node.operand, lookup)
            number = self._number(node.operand, lookup)
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](self._number(node.left, lookup), self._number(node.right, lookup))
        assert isinstance(node, ast.Compare)
        return self._compare(node, lookup)

    def _boolean(self, node: ast.BoolOp, lookup: Lookup) -> bool:
        stops_at = isinstance(node.op, ast.Or)
        for operand in node.values:
            if self._truth(operand, lookup) is stops_at:
                return stops_at
        return not stops_at

    def _compare(self, node: ast.Compare, lookup: Lookup) -> bool:
        left = self._value(node.left, lookup)
        for compare, operand in zip(node.ops, node.comparators, strict=True):
            right = self._value(operand, lookup)
            if isinstance(left, str) != isinstance(right, str):
                raise ExpressionError(f"{self.source!r} compares text with a number: {left!r} and {right!r}")
            if not _COMPARE[type(compare)](left, right):
                return False
            left = right
        return True

    def _truth(self, node: ast.expr, lookup: Lookup) -> bool:
        value = self._value(node, lookup)
        if not isinstance(value, bool):
            raise ExpressionError(f"{self.source!r}: {value!r} stands where true or false is expected")
        return value

    def _number(self, node: ast.expr, lookup: Lookup) -> float:
        value = self._value(node, lookup)
        if isinstance(value, str | bool):
            raise ExpressionError(f"{self.source!r} calculates with {value!r}, which is not a number")
        number: float = value
        return number


def literal(value: Value) -> str:
    """Return a value as an expression literal; raise ExpressionError if it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"({value!r})" if value < 0 else repr(value)
    for quote in "'\"":
        if isinstance(value, str) and not any(mark in value for mark in (quote, "\\", "\n")):
            return f"{quote}{value}{quote}"
    raise ExpressionError(f"{value!r} cannot be written in an expression: a number, true, false or plain text can")


def _tokenize(source: str) -> tuple[list[_Span], str]:
    """Return the names of `source`, and a Python expression in which the i-th is written `n<i>`."""
    if len(source) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(source)} characters is too long (at most {MAX_LENGTH})")
    spans: list[_Span] = []
    parts: list[str] = []
    position = depth = 0
    while position < len(source):
        token = _TOKEN.match(source, position)
        if token is None:
            raise ExpressionError(_unexpected(source, position), position)
        text = token.group()
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth > MAX_NESTING:
            raise ExpressionError(f"parentheses are nested more than {MAX_NESTING} deep", position)
        if token.lastgroup == "name" and text not in _KEYWORDS:
            parts.append(f" n{len(spans)} ")
            spans.append(_Span(text, position, token.end()))
        else:
            parts.append({"space": " ", "name": f" {_KEYWORDS.get(text)} "}.get(str(token.lastgroup), text))
        position = token.end()
    return spans, "".join(parts)


def _unexpected(source: str, position: int) -> str:
    found = source[position]
    hint = f"; write {_INSTEAD[found]}" if found in _INSTEAD else ""
    return f"unexpected {found!r} at character {position + 1} of {source!r}{hint}"


def _check(tree: ast.expr, source: str) -> None:
    """Refuse what the tokens allow but the language does not, such as calls and empty parentheses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Tuple):
            raise ExpressionError(f"{source!r} is not a complete expression (functions cannot be called)")
        if isinstance(node, ast.BinOp) and type(node.op) not in _BINARY:
            raise ExpressionError(f"{source!r}: only + - * / calculate")
