"""Equality of two final answers in mathematics, as math-verify decides it."""

from __future__ import annotations

from functools import cache
from typing import Any


def equal(argument: dict[str, Any]) -> dict[str, Any]:
    """Return {"equal": bool} for `given` beside `expected` to so many `decimals`, or {"broken": why}."""
    from math_verify import verify

    expected = _parsed(argument["expected"])
    if not expected:
        return {"broken": f"the reference {argument['expected'][:80]!r} holds nothing to compare with"}
    given = _parsed(argument["given"])
    return {"equal": bool(verify(expected, given, float_rounding=argument["decimals"], timeout_seconds=None))}


@cache
def _parsed(text: str) -> list[Any]:
    """Return what math-verify parses from a final answer: expressions and their source text."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    # The content of a box is parsed whole; loose text would be searched for the likeliest expression.
    ways = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    return parse(f"\\boxed{{{text}}}", ways, parsing_timeout=None)
