"""A stack language of one character an operation, total: every text of its operations runs, and soon ends.

A program begins with its inputs on the stack, the last on top, and gives what is on top at the end. An operation that
misses operands does nothing; numbers saturate at +-LIMIT. So there is no error, no loop and no way to grow beyond the
program's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

LIMIT = 9_999
MAX_OPERATIONS = 64
"""Longest program that is run."""
OPERATIONS = "123dso+-*mn"
Stack = tuple[int, ...]
Behaviour = tuple[int, ...]
"""What a program gives for each of the inputs of its arity."""
INPUTS: Mapping[int, tuple[Stack, ...]] = {
    1: tuple((given,) for given in range(10)),
    2: tuple((first, second) for first in range(1, 10, 2) for second in (0, 2, 5, 7)),
}
"""Inputs by arity that tell two programs apart: the tests of a program."""

BINARY: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda below, top: below + top,
    "-": lambda below, top: below - top,
    "*": lambda below, top: below * top,
    "m": max,
}


def step(operation: str, stack: Stack) -> Stack:
    """Return the stack after one operation; a digit pushes itself.

    d: copy the top. s: exchange the two on top. o: copy the one below the top. n: negate the top. + - * m: sum,
    difference, product or maximum of the two on top, in their place.
    """
    if operation.isdecimal():
        return (*stack, int(operation))
    if not stack or (len(stack) < 2 and operation not in "dn"):
        return stack
    *rest, top = stack
    if operation in "dn":
        return (*stack, top) if operation == "d" else (*rest, -top)
    *rest, below = rest
    if operation in "so":
        return (*rest, top, below) if operation == "s" else (*stack, below)
    return (*rest, max(-LIMIT, min(LIMIT, BINARY[operation](below, top))))


def is_program(text: str) -> bool:
    """Return whether a text is a program that will be run: operations only, at least one, not too many."""
    return 0 < len(text) <= MAX_OPERATIONS and set(text) <= set(OPERATIONS)


def trace(program: str, given: Stack) -> list[Stack]:
    """Return the stack after each operation."""
    stack, stacks = given, []
    for operation in program:
        stack = step(operation, stack)
        stacks.append(stack)
    return stacks


def run(program: str, given: Stack) -> int:
    """Return what a program gives for its inputs, 0 with none."""
    stack = given
    for operation in program:
        stack = step(operation, stack)
    return stack[-1] if stack else 0


def behaviour(program: str, arity: int) -> Behaviour:
    """Return what a program gives for each of the inputs of its arity."""
    return tuple(run(program, given) for given in INPUTS[arity])


@cache
def shortest(operations: str, arity: int, most: int) -> tuple[Mapping[Behaviour, str], ...]:
    """Return for each number of operations up to `most` the behaviours that need as many, each with a program.

    Programs leave their result alone on the stack; behaviours that are an input or a constant are left out.
    """
    inputs = INPUTS[arity]
    states: dict[tuple[Stack, ...], str] = {inputs: ""}
    known = set(states)
    shown = {tuple(given[place] for given in inputs) for place in range(arity)}
    levels: list[Mapping[Behaviour, str]] = [{}]
    for _ in range(most):
        following: dict[tuple[Stack, ...], str] = {}
        for stacks, program in states.items():
            for operation in operations:
                after = tuple(step(operation, stack) for stack in stacks)
                if after not in known:
                    known.add(after)
                    following[after] = program + operation
        found = {tuple(stack[0] for stack in stacks): text for stacks, text in following.items() if len(stacks[0]) == 1}
        levels.append({key: text for key, text in found.items() if key not in shown and len(set(key)) > 2})
        shown |= set(found)
        states = following
    return tuple(levels)


def is_decided(behaviours: Iterable[Behaviour], wanted: Behaviour, places: Sequence[int]) -> bool:
    """Return whether no other of the behaviours agrees with the wanted one at the places."""
    shown = [wanted[place] for place in places]
    return all(other == wanted or [other[place] for place in places] != shown for other in behaviours)
