"""Formulas: equality of mathematical expressions, decided by sympy without evaluating text.

What a model wrote is parsed into Python's syntax tree, and only numbers, names, arithmetic and a list of functions are
turned into sympy objects; nothing is executed. It still runs in the worker, since simplification may never end.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from pydantic import Field

from components.contract.component import Params
from components.tasks.answers import extract_answer
from components.tasks.isolation import inside_worker, verify_isolated
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

if TYPE_CHECKING:
    from sympy import Expr

MAX_CHARS = 500
MAX_POWER = 200
MAX_DEPTH = 100
FUNCTIONS = ("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "factorial")
SPELLINGS = {"ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "abs": "Abs"}
CONSTANTS = {"pi": "pi", "e": "E", "i": "I", "infty": "oo"}
INNER = r"\{([^{}]*)\}"
LATEX = (
    (re.compile(r"\\left|\\right|\\[!,;: ]|\$"), ""),
    (re.compile(r"\\cdot|\\times"), "*"),
    (re.compile(rf"\\[dt]?frac{INNER}{INNER}"), r"((\1)/(\2))"),
    (re.compile(rf"\\sqrt{INNER}"), r"sqrt(\1)"),
    (re.compile(rf"\^{INNER}"), r"^(\1)"),
    (re.compile(rf"_{INNER}"), r"_\1"),
    (re.compile(r"\\([a-zA-Z]+)"), r" \1 "),
)
IMPLICIT_PRODUCTS = (
    (re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?=[a-zA-Z(])"), r"\1*"),
    (re.compile(r"\)\s*(?=[\w(])"), ")*"),
)


class FormulaConfig(Params):
    """How long equality may be sought."""

    timeout_seconds: float = Field(default=5.0, gt=0)
    """Deadline of one comparison; running over it is FAILED, for nothing is known then."""


class Unreadable(ValueError):
    """Raised for text that is no expression of the supported kind."""


def formula(item: Item, response: str, *, config: FormulaConfig) -> Verdict:
    """Judge by mathematical equality: `2x+2` equals `2*(x+1)`, and `\\frac{1}{2}` equals `0.5`.

    An unreadable response is WRONG; an unreadable reference is a broken item.
    """
    if not inside_worker():
        return verify_isolated(item, response, seconds=config.timeout_seconds)
    try:
        expected = parse_formula(item.answer)
    except Unreadable as error:
        raise BrokenItem(f"the reference {item.answer[:80]!r}: {error}") from error
    text = extract_answer(response)
    try:
        given = parse_formula(text)
    except Unreadable as error:
        return wrong(f"{text[:80]!r}: {error}")
    return RIGHT if _equal(given, expected) else wrong(f"answered {text[:80]!r}")


def parse_formula(text: str) -> Expr:
    """Return the sympy expression that `text` (plain or simple LaTeX) writes; raise Unreadable if it is none."""
    if len(text) > MAX_CHARS:
        raise Unreadable(f"longer than {MAX_CHARS} characters")
    plain = _plain(text)
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unreadable("not an expression") from error
    return _build(tree.body, 0)


def _plain(text: str) -> str:
    previous = ""
    text = text.strip().rstrip(".")
    while text != previous:  # nested braces resolve from the inside out
        previous = text
        for pattern, replacement in LATEX:
            text = pattern.sub(replacement, text)
    for pattern, replacement in IMPLICIT_PRODUCTS:
        text = pattern.sub(replacement, text)
    return text.replace("^", "**").strip()


def _build(node: ast.expr, depth: int) -> Any:
    import sympy

    if depth > MAX_DEPTH:
        raise Unreadable("nested too deeply")
    match node:
        case ast.Constant(value=bool()):
            raise Unreadable("not a number")
        case ast.Constant(value=int() | float() as value):
            return sympy.Rational(str(value))
        case ast.Name(id=name):
            return sympy.sympify(CONSTANTS[name]) if name in CONSTANTS else sympy.Symbol(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return (-1 if isinstance(sign, ast.USub) else 1) * _build(operand, depth + 1)
        case ast.BinOp(left=left, op=operation, right=right):
            return _combine(operation, _build(left, depth + 1), _build(right, depth + 1))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]):
            name = SPELLINGS.get(name, name)
            if name in FUNCTIONS or name == "Abs":
                return getattr(sympy, name)(_bounded(_build(argument, depth + 1)))
    raise Unreadable("holds something that is neither number, name, arithmetic nor a known function")


def _combine(operation: ast.operator, left: Any, right: Any) -> Any:
    match operation:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            if right == 0:
                raise Unreadable("divides by zero")
            return left / right
        case ast.Pow():
            return left ** _bounded(right)
    raise Unreadable("holds an unknown operation")


def _bounded(value: Any) -> Any:
    """Refuse numbers whose power or factorial would fill the memory."""
    if value.is_number and value.is_finite and abs(value) > MAX_POWER:
        raise Unreadable(f"an exponent or argument beyond {MAX_POWER}")
    return value


def _equal(left: Expr, right: Expr) -> bool:
    import sympy

    if left == right:
        return True
    difference = sympy.simplify(left - right)
    return bool(difference == 0 or difference.equals(0))
