"""Benches of circuits: points with the output that is due, simulated with a reference, and how much they cover.

A point is a line `010 1`: a bit for each input, in the order of their names, and the output. A bench is data: it is
compared with columns of a truth table, and nothing of it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from components.tasks.domains.circuits import bits, columns, describe, evaluate

MAX_LINES = 256
POINT = re.compile(r"([01]{1,8}) +([01])")
VECTOR = re.compile(r"[01]{1,8}")


def vectors_of(text: str, width: int) -> list[str]:
    """Return the distinct vectors of `width` bits that a text lists, a line each; other lines are left out."""
    lines = (line.strip() for line in text.splitlines()[:MAX_LINES])
    return list(dict.fromkeys(line for line in lines if len(line) == width and VECTOR.fullmatch(line)))


def simulate(bench: str, reference: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the points that the reference passes, each vector once, and a simulator's log of the other lines.

    The log says `line 2: 010 gives 0, the bench expects 1`, or that a line is no point.
    """
    column = evaluate(reference, names)
    passed: dict[str, str] = {}
    log: list[str] = []
    for number, line in enumerate(bench.splitlines()[:MAX_LINES], 1):
        line = line.strip()
        if not line:
            continue
        found = POINT.fullmatch(line)
        if found is None or len(found[1]) != len(names):
            log.append(f"line {number}: no point of {len(names)} inputs")
        elif column is None:
            log.append(f"line {number}: the reference does not compile")
        elif (given := output(column, found[1])) != found[2]:
            log.append(f"line {number}: {found[1]} gives {given}, the bench expects {found[2]}")
        else:
            passed.setdefault(found[1], f"{found[1]} {found[2]}")
    return list(passed.values()), log


def output(column: int, vector: str) -> str:
    """Return a column's bit for a vector; the first input changes slowest, as in a truth table."""
    return str((column >> int(vector, 2)) & 1)


def passed_points(text: str, points: Iterable[str], names: Sequence[str]) -> float | None:
    """Return the share of points that an expression passes; None for a text that is no expression."""
    column = evaluate(text, names)
    wanted = [point.split() for point in points]
    if column is None:
        return None
    return sum(output(column, vector) == due for vector, due in wanted) / len(wanted)


def coverage(points: Iterable[str], reference: str, names: Sequence[str]) -> float:
    """Return toggle coverage: of inputs and gates, the share of their two values that the points reach.

    A node that has one value for all inputs counts with that one.
    """
    rows = {int(point.split()[0], 2) for point in points}
    size = 1 << len(names)
    due = reached = 0
    for column in nodes(reference, names):
        values = bits(column, len(names))
        due += len(set(values))
        reached += len({values[row] for row in rows if row < size})
    return reached / due if due else 0.0


def nodes(reference: str, names: Sequence[str]) -> list[int]:
    """Return the columns of all inputs that an expression names and of all its gates, each node as often as it stands.

    The reference is ours: an expression that `evaluate` reads.
    """
    inputs = dict(zip(names, columns(len(names)), strict=True))
    full = (1 << (1 << len(names))) - 1
    found: list[int] = []
    values: list[int] = []
    for word in reversed(describe(reference).split()):
        if word == "not":
            values.append(full ^ values.pop())
        elif word in inputs:
            values.append(inputs[word])
        else:
            one, other = values.pop(), values.pop()
            values.append(one & other if word == "and" else one | other if word == "or" else one ^ other)
        found.append(values[-1])
    return found
