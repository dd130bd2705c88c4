"""Equality of two final answers in mathematics, as math-verify decides it."""

from __future__ import annotations

from functools import cache
from typing import Any

MAX_OPERATIONS = 40
"""Longer formulas are compared by the library alone."""


def equal(argument: dict[str, Any]) -> dict[str, Any]:
    """Return {"equal": bool} for `given` beside `expected` to so many `decimals`, or {"broken": why}."""
    from math_verify import verify

    expected = _parsed(argument["expected"])
    if not expected:
        return {"broken": f"the reference {argument['expected'][:80]!r} holds nothing to compare with"}
    given = _parsed(argument["given"])
    same = verify(expected, given, float_rounding=argument["decimals"], timeout_seconds=None)
    return {"equal": bool(same) or _equal_as_meant(expected, given)}


@cache
def _parsed(text: str) -> list[Any]:
    """Return what math-verify parses from a final answer: expressions and their source text."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    # The content of a box is parsed whole; loose text would be searched for the likeliest expression.
    ways = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    return parse(f"\\boxed{{{text}}}", ways, parsing_timeout=None)


def _equal_as_meant(expected: list[Any], given: list[Any]) -> bool:
    """Return whether two formulas are equal with e and i as the constants, and n, k and m as positive whole numbers."""
    import sympy

    sides = [side[0] for side in (expected, given) if side and isinstance(side[0], sympy.Expr)]
    if len(sides) < 2 or any(sympy.count_ops(side) > MAX_OPERATIONS for side in sides):
        return False
    names = {symbol.name: symbol for side in sides for symbol in side.free_symbols}
    constants = {"e": sympy.E, "i": sympy.I}
    positive = {name: sympy.Symbol(name, positive=True, integer=True) for name in ("n", "k", "m")}
    meant = {names[name]: value for name, value in (constants | positive).items() if name in names}
    if not meant:
        return False
    left, right = (side.subs(meant) for side in sides)
    return left.free_symbols == right.free_symbols and bool(sympy.simplify(left - right) == 0)
