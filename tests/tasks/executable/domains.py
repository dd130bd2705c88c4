"""The executable domains as the tests run them: a source, who writes right answers, and references."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from pathlib import Path
from typing import Any

from components.contract.operators import OperatorSpec
from components.tasks.domains.stack import behaviour
from components.tasks.domains.tiny_sql import rows_of
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow

Spec = dict[str, Any]


@dataclass(frozen=True)
class Domain:
    """One domain."""

    source: Spec
    right: Spec
    """A demonstrator whose answers are right."""
    shift: Spec = field(default_factory=dict)
    """Settings of the source that make a shifted domain."""
    sandboxed: bool = False
    """Whether answers are programs that may try anything, inside the sandbox."""
    parted: bool = True
    """Whether the source has parts."""
    same: Callable[[Item, str], bool] = lambda item, text: False
    """Whether another answer does the same, by a reference of its own."""
    task: Callable[[Item], object] = lambda item: item.prompt
    """What the item asks for, without its wording."""
    refused: tuple[Spec, ...] = ()
    """Settings of the source that contradict each other."""
    quick: Spec = field(default_factory=dict)
    """Data of the item that shorten a run of the sandbox."""


def outputs(program: str, item: Item) -> list[int] | None:
    """Return what a stack program gives on the item's tests, by a machine that changes one list."""
    binary = {"+": operator.add, "-": operator.sub, "*": operator.mul, "m": max}
    given = []
    for inputs, _ in item.data["tests"]:
        stack = list(inputs)
        for sign in program:
            if sign in "123":
                stack.append(int(sign))
            elif sign == "n":
                stack[-1] *= -1
            elif sign == "d":
                stack.append(stack[-1])
            elif sign in "so" and len(stack) > 1:
                stack[-2:] = [stack[-1], stack[-2]] if sign == "s" else [*stack[-2:], stack[-2]]
            elif sign in binary and len(stack) > 1:
                top = stack.pop()
                stack[-1] = binary[sign](stack[-1], top)
            elif sign not in "so+-*m":
                return None
        given.append(stack[-1])
    return given


def _wanted(item: Item) -> list[int]:
    return [output for _, output in item.data["tests"]]


def _repaired(item: Item) -> object:
    (line,) = (line for line in item.data["fixed"].split("\n") if line.startswith(item.data["broken"]))
    return behaviour(line[2:], 2)


def _repairs(item: Item, text: str) -> bool:
    old, _, new = text.partition("\n+")
    return old[1:] in item.data["text"].split("\n") and behaviour(new[2:], 2) == _repaired(item)


DOMAINS: Mapping[str, Domain] = {
    "programs": Domain(
        source={"name": "programs"},
        right={"name": "programs"},
        shift={"min_operations": 5, "max_operations": 5, "pairs": 4},
        same=lambda item, text: outputs(text, item) == _wanted(item),
        task=lambda item: tuple(_wanted(item)),
        refused=(
            {"min_operations": 4, "max_operations": 3},
            {"operations": "+?"},
            {"operations": "d", "arity": 1, "max_operations": 2},
        ),
    ),
    "patches": Domain(
        source={"name": "patches"},
        right={"name": "patches"},
        shift={"lines": 3, "faults": ["insert"], "style": "blocks"},
        same=lambda item, text: text.startswith(f"-{item.data['broken']}") and _repairs(item, text),
        task=lambda item: _repaired(item),
        refused=({"min_operations": 4, "max_operations": 3},),
    ),
    "circuits": Domain(
        source={"name": "circuits"},
        right={"name": "circuits"},
        shift={"inputs": 4, "max_gates": 4, "names": "stuvwx", "given": "words"},
        same=lambda item, text: _agrees(text, item),
        task=lambda item: item.data["table"],
        refused=({"min_gates": 3, "max_gates": 2}, {"inputs": 4, "min_gates": 1, "max_gates": 2}),
    ),
    "sqlite": Domain(
        source={"name": "sqlite"},
        right={"name": "sqlite"},
        shift={"min_joins": 2, "conditions": 2, "aggregates": ["sum"], "schema_shown": True},
        same=lambda item, text: all(
            sorted(rows_of(test["setup"], text)) == sorted(test["rows"]) for test in item.data["tests"]
        ),
        refused=({"min_joins": 2, "max_joins": 1}, {"conditions": 2, "max_joins": 0}),
    ),
    "countdown": Domain(
        source={"name": "countdown"},
        right={"name": "countdown_search"},
        shift={"min_numbers": 4, "max_numbers": 4, "max_value": 12, "max_target": 100},
        same=lambda item, text: _hits(text, item),
        task=lambda item: (*sorted(item.data["metadata"]["numbers"]), item.data["metadata"]["target"]),
        refused=({"min_numbers": 4, "max_numbers": 3}, {"max_value": 50, "max_target": 20}),
    ),
    "latin_squares": Domain(
        source={"name": "latin_squares"},
        right={"name": "dfs_trace"},
        shift={"size": 5, "min_holes": 8, "max_holes": 8},
        same=lambda item, text: _is_square(text, item),
        refused=({"min_holes": 5, "max_holes": 4}, {"size": 3, "min_holes": 4, "max_holes": 10}),
    ),
    "solution_sets": Domain(
        source={"name": "solution_sets"},
        right={"name": "solution_sets"},
        shift={"puzzles": ["sums"], "letters": 5},
        refused=(
            {"min_size": 5, "max_size": 4},
            {"min_solutions": 4, "max_solutions": 3},
            {"max_size": 4, "min_solutions": 3},
        ),
    ),
    "python_programs": Domain(
        source={"name": "python_programs"},
        right={"name": "python_programs"},
        shift={
            "given": "both",
            "min_steps": 4,
            "max_steps": 4,
            "steps": ["sort", "add 1", "double", "drop last", "sum"],
        },
        same=lambda item, text: _passes(text, item),
        task=lambda item: tuple(item.data["steps"]),
        refused=({"min_steps": 3, "max_steps": 2}, {"steps": ["sum", "count"]}),
        quick={"limits": {"seconds": 0.3, "total_seconds": 0.6}},
        sandboxed=True,
    ),
}


def _agrees(expression: str, item: Item) -> bool:
    """Return whether an expression of gates has the item's table, by Python's own operators."""
    names = item.data["names"]
    if not re.fullmatch(rf"[{names}~&^|()]+", expression) or "~(" in expression or "~~" in expression:
        return False
    rows = product((0, 1), repeat=len(names))
    try:
        code = compile(re.sub(r"~(.)", r"(1-\1)", expression), "<gates>", "eval")
        return "".join(str(eval(code, dict(zip(names, row, strict=True)))) for row in rows) == item.data["table"]
    except SyntaxError:
        return False


def _hits(expression: str, item: Item) -> bool:
    """Return whether an expression has all the numbers and the target as its value, by Python's own arithmetic."""
    if not re.fullmatch(r"[0-9+*/() -]+", expression):
        return False
    numbers = sorted(map(int, re.findall(r"\d+", expression)))
    try:
        value = eval(re.sub(r"(\d+)", r"Fraction(\1)", expression), {"Fraction": Fraction})
    except (SyntaxError, TypeError, ZeroDivisionError):
        return False
    metadata = item.data["metadata"]
    return numbers == sorted(metadata["numbers"]) and value == metadata["target"]


def _is_square(text: str, item: Item) -> bool:
    """Return whether the digits complete the puzzle, row and column by row and column."""
    digits = iter(text)
    if not text.isdecimal() or len(text) != item.prompt.count("_"):
        return False
    rows = "".join(next(digits) if sign == "_" else sign for sign in item.prompt).split("/")
    wanted = {str(number) for number in range(1, len(rows) + 1)}
    return all(set(line) == wanted for line in [*rows, *zip(*rows, strict=True)])


def _passes(program: str, item: Item) -> bool:
    """Return whether a program of ours, with a letter changed, passes the tests here."""
    names: dict[str, Any] = {}
    try:
        exec(program, names)
        return all(names["f"](*test["args"]) == test["expected"] for test in item.data["tests"])
    except Exception:
        return False


def draw(source: Spec, count: int, seed: int = 0, **changed: Any) -> list[Item]:
    """Return items of a source with changed settings."""
    bound = OperatorSpec.model_validate({**source, **changed}).resolve("source")
    rows = [row for row in islice(bound(SourceRequest(seed, count, Path())).rows, count) if isinstance(row, SourceRow)]
    assert len(rows) == count
    return [row.item("d") for row in rows]


def write(demonstrator: Spec, item: Item, seed: int = 0) -> str:
    """Return what a demonstrator writes for an item."""
    return OperatorSpec.model_validate(demonstrator).resolve("demonstrator")(item, random.Random(seed))
