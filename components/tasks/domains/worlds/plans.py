"""Plans: typed pure functions one after the other, looked up by name, never evaluated as code.

A plan that names an unknown function, or gives one a value of another type than it takes, cannot be executed. All
others can, in bounded time: values only grow by doubling, and plans have at most MAX_STEPS steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

Type = Literal["word", "list", "number"]
Value = str | tuple[int, ...] | int
FIRST = ord("a")
ALPHABET = 8
"""Letters that words have, from a."""
MAX_STEPS = 8


@dataclass(frozen=True)
class Step:
    """A function with the types of what it takes and gives."""

    takes: Type
    gives: Type
    apply: Callable[[Any], Value]


def _next(word: str) -> str:
    return "".join(_letter(ord(letter) - FIRST + 2) for letter in word)


def _letter(number: int) -> str:
    """Return a letter by its number, counted from 1 and beginning again after the last."""
    return chr(FIRST + (number - 1) % ALPHABET)


STEPS: Mapping[str, Step] = {
    "rev": Step("word", "word", lambda word: word[::-1]),
    "sort": Step("word", "word", lambda word: "".join(sorted(word))),
    "uniq": Step("word", "word", lambda word: "".join(dict.fromkeys(word))),
    "dbl": Step("word", "word", lambda word: "".join(letter * 2 for letter in word)),
    "nxt": Step("word", "word", _next),
    "codes": Step("word", "list", lambda word: tuple(ord(letter) - FIRST + 1 for letter in word)),
    "len": Step("word", "number", len),
    "flip": Step("list", "list", lambda numbers: numbers[::-1]),
    "sums": Step("list", "list", lambda numbers: tuple(accumulate(numbers))),
    "inc": Step("list", "list", lambda numbers: tuple(number + 1 for number in numbers)),
    "chars": Step("list", "word", lambda numbers: "".join(map(_letter, numbers))),
    "total": Step("list", "number", sum),
    "most": Step("list", "number", lambda numbers: max(numbers, default=0)),
    "twice": Step("number", "number", lambda number: number * 2),
}
"""Fourteen functions, as many as OpenAGI's benchmark has transforms."""


class NotExecutable(Exception):
    """A plan that cannot be executed; says at which step and why."""


def read_plan(text: str) -> tuple[str, ...]:
    """Return the functions of a plan for a word, its types checked; raise NotExecutable."""
    names = tuple(text.split(maxsplit=MAX_STEPS))
    if not names:
        raise NotExecutable("the plan is empty")
    if len(names) > MAX_STEPS:
        raise NotExecutable(f"more than {MAX_STEPS} steps")
    has: Type = "word"
    for place, name in enumerate(names, start=1):
        step = STEPS.get(name)
        if step is None:
            raise NotExecutable(f"step {place} is no function: {name[:40]!r}")
        if step.takes != has:
            raise NotExecutable(f"step {place}, {name}, takes a {step.takes} and gets a {has}")
        has = step.gives
    return names


def execute(plan: Sequence[str], word: str) -> list[Value]:
    """Return the value after each step of a checked plan."""
    values: list[Value] = []
    value: Value = word
    for name in plan:
        value = STEPS[name].apply(value)
        values.append(value)
    return values


def type_of(value: Value) -> Type:
    """Return the type of a value."""
    if isinstance(value, str):
        return "word"
    return "number" if isinstance(value, int) else "list"


def write_value(value: Value) -> str:
    """Return a value as text: `abc`, `4` or `[1 2]`."""
    return f"[{' '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def shortest_plan(words: Sequence[str], wanted: Sequence[Value], most: int) -> tuple[str, ...] | None:
    """Return the first of the shortest plans of at most `most` steps that turn all words into what is wanted."""
    start, goal = tuple(words), tuple(wanted)
    states: dict[tuple[Value, ...], tuple[str, ...]] = {start: ()}
    known = set(states)
    for _ in range(most):
        following: dict[tuple[Value, ...], tuple[str, ...]] = {}
        for values, plan in states.items():
            has = type_of(values[0])
            for name, step in STEPS.items():
                if step.takes != has:
                    continue
                after = tuple(step.apply(value) for value in values)
                if after not in known:
                    if after == goal:
                        return (*plan, name)
                    known.add(after)
                    following[after] = (*plan, name)
        states = following
    return None
