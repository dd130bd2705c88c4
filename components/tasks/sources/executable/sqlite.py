"""Questions about small tables, to be answered by a query (Think2SQL)."""

from __future__ import annotations

import random
from typing import Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.tiny_sql import TABLES, Aggregate, draw_question, draw_setup, rows_of
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "sqlite"
MAX_DRAWS = 500
"""Draws of a question with the wanted number of joins."""
NUM_DATABASES = 3
"""Sets of rows that a query is run on, so that a wrong one is seldom right by chance."""


class SqliteConfig(MadeConfig):
    """How many tables a question needs, and what it asks."""

    min_joins: int = Field(default=0, ge=0, le=2)
    """Fewest joins."""
    max_joins: int = Field(default=2, ge=0, le=2)
    """Most joins of the three tables: the knob of difficulty."""
    conditions: int = Field(default=1, ge=1, le=2)
    """Conditions in the question."""
    aggregates: tuple[Aggregate, ...] = Field(default=("plain", "count", "max"), min_length=1)
    """What is asked of a column: others are a shift of domain."""
    schema_shown: bool = False
    """Whether the prompt lists the tables; they are the same in all rows, so that a small model can know them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.conditions == 2 and self.max_joins == 0:
            raise InputError("source sqlite: no table has a column and two others for conditions; raise max_joins")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def sqlite(request: SourceRequest, *, config: SqliteConfig) -> SourceRows:
    """Ask `max age where land = n`; answer `select max(age) from pet join man using(who) join town ... where land='n'`.

    A query runs on three databases, in memory and read-only, in the sandbox. `data["tests"]` is as verifier code_tests
    reads it too; `data["joins"]` the number of joins. Parts share no question.
    Source: Think2SQL, whose questions are BIRD's; tables and grammar are ours.
    """
    return made_rows("sqlite", request, config, VERIFIER, lambda rng: _draw(config, rng))


def _draw(config: SqliteConfig, rng: random.Random) -> Made | None:
    joins = rng.randint(config.min_joins, config.max_joins)
    draws = (draw_question(rng, joins, config.conditions, config.aggregates) for _ in range(MAX_DRAWS))
    question = next((drawn for drawn in draws if drawn is not None), None)
    if question is None:
        return None
    setups = [draw_setup(rng) for _ in range(NUM_DATABASES)]
    found = [rows_of(setup, question.query) for setup in setups]
    if not any(row != [None] and row != [0] for rows in found for row in rows):
        return None
    tests = [{"setup": setup, "rows": rows} for setup, rows in zip(setups, found, strict=True)]
    told = "".join(f"{name}({','.join(columns)}) " for name, columns in TABLES.items()) if config.schema_shown else ""
    data = {"tests": tests, "language": "sql", "joins": joins}
    return Made(question.text, f"{told}{question.text}", question.query, data)
