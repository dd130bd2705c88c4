"""Expressions of gates, as in a hardware description language: parsed by one pass, and computed for all inputs at once.

An input of a circuit is the column of its values in the truth table, one bit of an integer for each row, so that a gate
is one operation on integers. The parser keeps lists of its own: it ends on every text and nothing can nest too deep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

MAX_CHARS = 500
"""Longest expression that is read."""
GATES = "&^|"
"""From what binds most to what binds least; ~ binds more than all."""
STRENGTH = {"~": 3, "&": 2, "^": 1, "|": 0}
SIGN = re.compile(r"\s*([A-Za-z]|[~&^|()])")
INPUTS = "abcd"


def columns(count: int) -> list[int]:
    """Return each input's column: bit `row` says whether it is 1 in that row; the first input changes slowest."""
    rows = range(1 << count)
    return [sum(((row >> (count - 1 - place)) & 1) << row for row in rows) for place in range(count)]


def evaluate(text: str, names: Sequence[str]) -> int | None:
    """Return the column of an expression over the named inputs; None for any other text. Never raises."""
    signs = _signs(text)
    known = dict(zip(names, columns(len(names)), strict=True))
    full = (1 << (1 << len(names))) - 1
    values: list[int] = []
    waiting: list[str] = []
    wants_value = True
    for sign in signs or ["?"]:
        if wants_value and sign in ("~", "("):
            waiting.append(sign)
        elif wants_value and sign in known:
            values.append(known[sign])
            wants_value = False
        elif not wants_value and (sign in GATES or sign == ")"):
            _reduce(values, waiting, STRENGTH.get(sign, -1), full)
            if sign != ")":
                waiting.append(sign)
                wants_value = True
            elif not waiting:
                return None
            else:
                waiting.pop()
        else:
            return None
    if wants_value:
        return None
    _reduce(values, waiting, -1, full)
    return None if waiting else values[0]


def bits(column: int, count: int) -> str:
    """Return a column as the text of a truth table, the row of zeros first."""
    return "".join(str((column >> row) & 1) for row in range(1 << count))


def describe(text: str) -> str:
    """Return an expression in words, each gate before what it joins: `or and a b not c` of `a&b|~c`."""
    words = {"~": "not", "&": "and", "^": "xor", "|": "or"}
    return " ".join(words.get(sign, sign) for sign in _prefix(text))


def from_words(words: Sequence[str]) -> str | None:
    """Return the expression that `describe` put into these words; None for any others."""
    gates = {"and": "&", "xor": "^", "or": "|"}
    values: list[str] = []
    for word in reversed(words):
        if word in gates and len(values) >= 2:
            values.append(join(gates[word], values.pop(), values.pop()))
        elif word == "not" and values:
            inner = values.pop()
            values.append(f"~({inner})" if len(inner) > 1 and inner[0] != "~" else f"~{inner}")
        elif len(word) == 1 and word.isascii() and word.isalpha():
            values.append(word)
        else:
            return None
    return values[0] if len(values) == 1 else None


@cache
def simplest(count: int, most: int) -> tuple[Mapping[int, str], ...]:
    """Return for each number of gates up to `most` the functions that need as many, each with an expression of INPUTS.

    ~ on an input is free; functions that do not depend on every input are left out.
    """
    full = (1 << (1 << count)) - 1
    literals = {column: name for name, column in zip(INPUTS, columns(count), strict=False)}
    levels: list[dict[int, str]] = [{**literals, **{full ^ column: f"~{name}" for column, name in literals.items()}}]
    known = set(levels[0])
    for gates in range(1, most + 1):
        found: dict[int, str] = {}
        for left in range((gates + 1) // 2):
            for one, first in levels[left].items():
                for other, second in levels[gates - 1 - left].items():
                    for gate, column in (("&", one & other), ("|", one | other), ("^", one ^ other)):
                        if column not in known and column not in (0, full):
                            known.add(column)
                            found[column] = join(gate, first, second)
        levels.append(found)
    return tuple({column: text for column, text in level.items() if _depends(column, count)} for level in levels)


def join(gate: str, first: str, second: str) -> str:
    """Return two expressions joined by a gate, with the brackets that are needed."""
    return gate.join(f"({part})" if _weakest(part) < STRENGTH[gate] else part for part in (first, second))


def _signs(text: str) -> list[str] | None:
    text = text.strip()
    if not 0 < len(text) <= MAX_CHARS:
        return None
    found = SIGN.findall(text)
    return found if "".join(found) == "".join(text.split()) else None


def _reduce(values: list[int], waiting: list[str], strength: int, full: int) -> None:
    """Apply what waits and binds at least as much as `strength`, back to the last open bracket."""
    while waiting and waiting[-1] != "(" and STRENGTH[waiting[-1]] >= strength:
        gate, right = waiting.pop(), values.pop()
        if gate == "~":
            values.append(full ^ right)
        else:
            left = values.pop()
            values.append(left & right if gate == "&" else left | right if gate == "|" else left ^ right)


def _weakest(text: str) -> int:
    depth, found = 0, STRENGTH["~"]
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if not depth and sign in GATES:
            found = min(found, STRENGTH[sign])
    return found


def _depends(column: int, count: int) -> bool:
    """Return whether a function changes with each of its inputs."""
    table = bits(column, count)
    return all(any(table[row] != table[row ^ (1 << place)] for row in range(len(table))) for place in range(count))


def _prefix(text: str) -> list[str]:
    """Return the signs of a right expression with each gate before what it joins."""
    values: list[list[str]] = []
    waiting: list[str] = []

    def apply(strength: int) -> None:
        while waiting and waiting[-1] != "(" and STRENGTH[waiting[-1]] >= strength:
            gate, right = waiting.pop(), values.pop()
            values.append([gate, *([] if gate == "~" else values.pop()), *right])

    for sign in _signs(text) or []:
        if sign in ("~", "("):
            waiting.append(sign)
        elif sign == ")" or sign in GATES:
            apply(STRENGTH.get(sign, -1))
            waiting.pop() if sign == ")" else waiting.append(sign)
        else:
            values.append([sign])
    apply(-1)
    return values[0]
