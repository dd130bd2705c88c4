"""Statements about a number that are true or false by construction."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Kind = Literal["equal", "order", "parity", "divisible"]
KINDS: tuple[Kind, ...] = ("equal", "order", "parity", "divisible")
MAX_GAP = 3
"""False equalities and true orders miss the number by this at most."""
DIVISORS = (3, 4, 5)


@dataclass(frozen=True)
class Statement:
    """`text` follows the number; `holds` computes whether it is true of one."""

    relation: Literal["=", ">", "<", "even", "odd", "divisible"]
    operand: int = 0

    @property
    def text(self) -> str:
        """Return it as it follows the number: `> 5`, `is even`."""
        if self.relation == "divisible":
            return f"is divisible by {self.operand}"
        return f"is {self.relation}" if self.relation in ("even", "odd") else f"{self.relation} {self.operand}"

    def holds(self, value: int) -> bool:
        """Return whether it is true of `value`."""
        match self.relation:
            case "=":
                return value == self.operand
            case ">":
                return value > self.operand
            case "<":
                return value < self.operand
            case "divisible":
                return value % self.operand == 0
            case _:
                return value % 2 == (self.relation == "odd")


def draw_statement(kind: Kind, value: int, truth: bool, rng: random.Random) -> Statement | None:
    """Return a statement of a kind that is true or false of `value`; None where there is none of that kind."""
    gap = rng.randint(1, MAX_GAP)
    if kind == "equal":
        return Statement("=", value if truth else value + rng.choice((-gap, gap)))
    if kind == "order":
        return (
            Statement(">", value - gap if truth else value + gap - 1)
            if rng.random() < 0.5
            else Statement("<", value + gap if truth else value - gap + 1)
        )
    if kind == "parity":
        return Statement("odd" if (value % 2 == 1) == truth else "even")
    fitting = [divisor for divisor in DIVISORS if (value % divisor == 0) == truth]
    return Statement("divisible", rng.choice(fitting)) if fitting else None
