"""Tests as data sets write them: JSON in a text, lines of input in a list, `assert f(2) == 4`."""

from __future__ import annotations

import ast
import json
from typing import Any

from components.tasks.verdict import BrokenItem

SHOWN = 80
MOST_CHARS = 20_000_000


def as_tests(tests: Any, entry_point: Any) -> dict[str, Any]:
    """Return `tests` as a list of objects, and the `entry_point` that asserts name; raise BrokenItem at another assert.

    Nothing of a test is evaluated: arguments and values of an assert are literals.
    """
    if isinstance(tests, str):
        tests = _parsed(tests)
    if not isinstance(tests, list):
        return {} if tests is None else {"tests": tests}
    named = entry_point if isinstance(entry_point, str) and entry_point else ""
    read: list[Any] = []
    for place, test in enumerate(tests):
        if isinstance(test, str):
            name, test = _asserted(test, place)
            if named and name != named:
                raise BrokenItem(f"data.tests[{place}] calls {name}, and not {named}")
            named = name
        read.append(_lines_joined(test) if isinstance(test, dict) else test)
    return {"tests": read, **({"entry_point": named} if named else {})}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MOST_CHARS else text
    except (ValueError, RecursionError):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines if lines and all(line.startswith("assert ") for line in lines) else text


def _lines_joined(test: dict[str, Any]) -> dict[str, Any]:
    lines = {
        name: "\n".join(test[name])
        for name in ("stdin", "stdout")
        if isinstance(test.get(name), list) and all(isinstance(line, str) for line in test[name])
    }
    return {**test, **lines}


def _asserted(text: str, place: int) -> tuple[str, dict[str, Any]]:
    """Return the function's name and the test of an assert: `f(args) == value`, `f(args)` or `not f(args)`."""
    try:
        (statement,) = ast.parse(text.strip()).body
        if not isinstance(statement, ast.Assert):
            raise TypeError
        call, expected = _compared(statement.test)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise TypeError
        kwargs = {word.arg: _value(word.value) for word in call.keywords if word.arg}
        if len(kwargs) < len(call.keywords):
            raise TypeError
        test = {"args": [_value(argument) for argument in call.args], "kwargs": kwargs, "expected": expected}
        return call.func.id, test
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise BrokenItem(
            f"data.tests[{place}]: {text[:SHOWN]!r} is not of the form `assert f(2) == 4` with literal values; "
            'write it as {"args": [2], "expected": 4}'
        ) from None


def _compared(test: ast.expr) -> tuple[ast.expr, Any]:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
        return test.left, _value(test.comparators[0])
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand, False
    return test, True


def _value(expression: ast.expr) -> Any:
    """Return a literal as JSON holds it: tuples are lists, sets sorted lists."""
    return json.loads(json.dumps(ast.literal_eval(expression), allow_nan=False, default=_sorted))


def _sorted(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError
