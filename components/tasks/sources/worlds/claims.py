"""Claims in groups: variants of one theorem, each true or false by construction, so that guessing does not pass.

A group is a sum with several statements about it: `claim: 4 + 7 - 3 > 5` is true, `claim: 4 + 7 - 3 is odd` false.
Truth is drawn for each variant by itself: whoever guesses has all of m right with 0.5^m (metric `all_of_variants`).
Source: DeepTheorem (2025).
"""

from __future__ import annotations

import random
from typing import Any, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.statements import KINDS, Kind, Statement, draw_statement
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "exact"
MAX_TRIES = 1000


class ClaimsConfig(MadeConfig):
    """How hard the theorems are, and which variants they have."""

    variants: int = Field(default=3, ge=1, le=8)
    """Claims of each group, all different. They follow one another: `count` of a stage is best a multiple."""
    min_terms: int = Field(default=2, ge=1, le=20)
    """Fewest terms of a sum."""
    max_terms: int = Field(default=3, ge=1, le=20)
    """Most terms: the knob of difficulty."""
    max_number: int = Field(default=9, ge=1)
    """Largest number of a sum."""
    kinds: tuple[Kind, ...] = Field(default=KINDS, min_length=1)
    """What claims say."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("claims", ("min_terms", "max_terms"))
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def claims(request: SourceRequest, *, config: ClaimsConfig) -> SourceRows:
    """Draw groups without end; rows of a group are neighbours and lie in one `part`.

    `data["group"]` names the group and `num_variants` its size. Split by `part`, not by the stage's own `split`, which
    would tear groups apart.
    """
    waiting: list[Made] = []

    def draw(rng: random.Random) -> Made:
        if not waiting:
            waiting.extend(reversed(_group(_expression(config, rng), config)))
        return waiting.pop()

    return made_rows("claims", request, config, VERIFIER, draw)


def _expression(config: ClaimsConfig, rng: random.Random) -> str:
    parts = [str(rng.randint(1, config.max_number))]
    for _ in range(rng.randint(config.min_terms, config.max_terms) - 1):
        parts.append(f"{rng.choice('+-')} {rng.randint(1, config.max_number)}")
    return " ".join(parts)


def _group(expression: str, config: ClaimsConfig) -> list[Made]:
    """Return the claims of an expression: the same whenever it is drawn, so that a duplicate is a whole group."""
    rng = derive_rng(0, "claims", expression, config.variants, *config.kinds)
    value = value_of(expression)
    found: dict[str, tuple[Statement, bool]] = {}
    for _ in range(MAX_TRIES):
        truth = rng.random() < 0.5
        statement = draw_statement(rng.choice(config.kinds), value, truth, rng)
        if statement is not None:
            found.setdefault(statement.text, (statement, truth))
        if len(found) == config.variants:
            break
    else:
        raise InputError(
            f"source claims: kinds {list(config.kinds)} have no {config.variants} claims about {expression}"
        )
    rows = []
    for text, (statement, truth) in found.items():
        data: dict[str, Any] = {
            "group": expression,
            "num_variants": config.variants,
            "metadata": {"expression": expression},
            "relation": statement.relation,
            "operand": statement.operand,
        }
        rows.append(Made(expression, f"claim: {expression} {text}", "true" if truth else "false", data))
    return rows


def value_of(expression: str) -> int:
    """Return the value of a sum such as `4 + 7 - 3`."""
    first, *rest = expression.split()
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return int(first) + sum(int(number) if sign == "+" else -int(number) for sign, number in pairs)
