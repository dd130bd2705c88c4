"""Small Python programs made of steps over a list of whole numbers, each step told in a word or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ENTRY = "f"
NAME = "v"
Numbers = list[int]


@dataclass(frozen=True)
class Step:
    """One step: its words, its expression of `v`, and whether it ends in a number."""

    words: str
    code: str
    ends: bool = False


STEPS: Mapping[str, Step] = {
    step.words: step
    for step in (
        Step("sort", "sorted(v)"),
        Step("reverse", "v[::-1]"),
        Step("double", "[x*2 for x in v]"),
        Step("add 1", "[x+1 for x in v]"),
        Step("square", "[x*x for x in v]"),
        Step("negate", "[-x for x in v]"),
        Step("keep even", "[x for x in v if x%2==0]"),
        Step("keep odd", "[x for x in v if x%2]"),
        Step("keep above 3", "[x for x in v if x>3]"),
        Step("drop first", "v[1:]"),
        Step("drop last", "v[:-1]"),
        Step("sum", "sum(v)", ends=True),
        Step("count", "len(v)", ends=True),
        Step("largest", "max(v,default=0)", ends=True),
    )
}


def program(steps: Sequence[str]) -> str:
    """Return the program of steps: `def f(v):`, a line for each step but the last, and the return."""
    *before, last = [STEPS[words].code for words in steps]
    return "\n".join([f"def {ENTRY}({NAME}):", *(f" {NAME}={code}" for code in before), f" return {last}"])


def result(steps: Sequence[str], numbers: Numbers) -> Any:
    """Return what the steps make of a list, computed by our own code: no text is evaluated."""
    value: Any = list(numbers)
    for words in steps:
        value = _APPLY[words](value)
    return value


_APPLY = {
    "sort": sorted,
    "reverse": lambda v: v[::-1],
    "double": lambda v: [x * 2 for x in v],
    "add 1": lambda v: [x + 1 for x in v],
    "square": lambda v: [x * x for x in v],
    "negate": lambda v: [-x for x in v],
    "keep even": lambda v: [x for x in v if x % 2 == 0],
    "keep odd": lambda v: [x for x in v if x % 2],
    "keep above 3": lambda v: [x for x in v if x > 3],
    "drop first": lambda v: v[1:],
    "drop last": lambda v: v[:-1],
    "sum": sum,
    "count": len,
    "largest": lambda v: max(v, default=0),
}
