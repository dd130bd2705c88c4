"""Three small tables and a reduced grammar of questions about them, each with its query (Think2SQL)."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from components.contract.errors import InputError

TABLES: Mapping[str, tuple[str, ...]] = {
    "pet": ("kind", "age", "who"),
    "man": ("who", "pay", "town"),
    "town": ("town", "size", "land"),
}
"""Tables in a chain: each joins the next by the column that both have."""
VALUES: Mapping[str, tuple[str | int, ...]] = {
    "kind": ("cat", "dog", "fox", "hen"),
    "age": tuple(range(1, 10)),
    "who": ("ann", "bob", "eve", "jim", "kim", "lea"),
    "pay": tuple(range(1, 10)),
    "town": ("ulm", "bonn", "kiel"),
    "size": tuple(range(1, 10)),
    "land": ("n", "s", "w"),
}
OWN: Mapping[str, tuple[str, ...]] = {"pet": ("kind", "age"), "man": ("pay",), "town": ("size", "land")}
"""Columns that only one table has: questions and conditions are about them, so that a question fixes its joins."""
NUM_PETS = 6
Aggregate = Literal["plain", "count", "max", "min", "sum"]
Operator = Literal["=", ">", "<"]
Cell = str | int | float | None
CONDITION = r"[a-z]{1,8}[=<>](?:'[a-z]{0,8}'|\d{1,3})"
QUERY = re.compile(
    r"select (?:[a-z]{1,8}|(?:count|max|min|sum)\([a-z]{1,8}\)) from [a-z]{1,8}"
    rf"(?: join [a-z]{{1,8}} using\([a-z]{{1,8}}\)){{0,2}} where {CONDITION}(?: and {CONDITION})?"
)
"""The form of `Question.query`, whatever its names: it reads up to three tables and calls nothing but an aggregate."""


@dataclass(frozen=True)
class Question:
    """What is asked: a column or an aggregate of it, where conditions hold."""

    column: str
    aggregate: Aggregate
    conditions: tuple[tuple[str, Operator, str | int], ...]

    @property
    def tables(self) -> list[str]:
        """Return the tables from the first that is needed to the last, in the order of the chain."""
        names = list(TABLES)
        needed = [names.index(table_of(column)) for column in (self.column, *(name for name, _, _ in self.conditions))]
        return names[min(needed) : max(needed) + 1]

    @property
    def text(self) -> str:
        """Return the question: `max age where land = n`."""
        asked = self.column if self.aggregate == "plain" else f"{self.aggregate} {self.column}"
        return f"{asked} where {' and '.join(f'{name} {sign} {value}' for name, sign, value in self.conditions)}"

    @property
    def query(self) -> str:
        """Return the query, in small letters."""
        asked = self.column if self.aggregate == "plain" else f"{self.aggregate}({self.column})"
        first, *others = self.tables
        joins = "".join(f" join {table} using({shared(table)})" for table in others)
        conditions = " and ".join(f"{name}{sign}{value!r}" for name, sign, value in self.conditions)
        return f"select {asked} from {first}{joins} where {conditions}"


def table_of(column: str) -> str:
    """Return the table that alone has a column."""
    return next(table for table, columns in OWN.items() if column in columns)


def shared(table: str) -> str:
    """Return the column by which a table joins the one before it in the chain."""
    names = list(TABLES)
    before = TABLES[names[names.index(table) - 1]]
    return next(column for column in TABLES[table] if column in before)


def draw_question(
    rng: random.Random, joins: int, num_conditions: int, aggregates: Sequence[Aggregate]
) -> Question | None:
    """Return a question that needs so many joins, or None where the draw is another one."""
    columns = [column for own in OWN.values() for column in own]
    column, *names = [rng.choice(columns) for _ in range(1 + num_conditions)]
    aggregate = rng.choice(list(aggregates))
    conditions = tuple(_condition(name, rng) for name in names)
    question = Question(column, aggregate, conditions)
    text_sum = aggregate not in ("plain", "count") and isinstance(VALUES[column][0], str)
    if len({column, *names}) < len(names) + 1 or text_sum or len(question.tables) != joins + 1:
        return None
    return question


def draw_setup(rng: random.Random) -> str:
    """Return SQL that makes the tables: every man and every town once, and six pets."""
    rows: dict[str, list[list[str | int]]] = {
        "town": [[town, rng.choice(VALUES["size"]), rng.choice(VALUES["land"])] for town in VALUES["town"]],
        "man": [[who, rng.choice(VALUES["pay"]), rng.choice(VALUES["town"])] for who in VALUES["who"]],
        "pet": [[rng.choice(VALUES[column]) for column in TABLES["pet"]] for _ in range(NUM_PETS)],
    }
    made = [f"create table {table}({', '.join(columns)});" for table, columns in TABLES.items()]
    filled = [f"insert into {table} values ({repr(row)[1:-1]});" for table in TABLES for row in rows[table]]
    return "\n".join(made + filled)


def rows_of(setup: str, query: str) -> list[list[Cell]]:
    """Return the rows of one of our own queries; what a model wrote goes to the sandbox."""
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(setup)
        return [list(row) for row in database.execute(query)]
    except sqlite3.Error as error:
        raise InputError(f"the query {query!r} does not run: {error}") from error
    finally:
        database.close()


def overlap(given: Sequence[Sequence[Cell]], wanted: Sequence[Sequence[Cell]]) -> float:
    """Return the mean of cell precision, cell recall and tuple cardinality of two results, 0 to 1.

    Cells are compared as sets of values; cardinality is the smaller number of rows over the larger. Two empty results
    agree. Source: QATCH, as Think2SQL rewards by it.
    """
    if not given and not wanted:
        return 1.0
    told, true = {_cell(cell) for row in given for cell in row}, {_cell(cell) for row in wanted for cell in row}
    both = len(told & true)
    precision = both / len(told) if told else 0.0
    recall = both / len(true) if true else 0.0
    return (precision + recall + min(len(given), len(wanted)) / max(len(given), len(wanted))) / 3


def _cell(cell: Cell) -> str:
    return str(float(cell)) if isinstance(cell, int | float) else repr(cell)


def _condition(name: str, rng: random.Random) -> tuple[str, Operator, str | int]:
    value = rng.choice(VALUES[name])
    sign: Operator = "=" if isinstance(value, str) else rng.choice((">", "<"))
    return name, sign, value
