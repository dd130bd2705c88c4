"""Queries for items of source sqlite after a thought that says which table has each column."""

from __future__ import annotations

import random
import re

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.demonstrators.executable.sqlite import SqliteDemonstratorConfig, sqlite
from components.tasks.domains.tiny_sql import OWN, table_of
from components.tasks.item import Item

COLUMN = re.compile(rf"\b(?:{'|'.join(column for own in OWN.values() for column in own)})\b")


class QueryPlanConfig(Params):
    """How careful the analyst is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability of a slip in the query, as of demonstrator sqlite; the thought is right."""


def query_plan(item: Item, rng: random.Random, *, config: QueryPlanConfig) -> str:
    """Write `<think>age:pet land:town<answer>select age from pet join man ... where land='w'`.

    The thought names the columns in the order of the question. Source: Think2SQL, whose traces a reasoner writes.
    """
    if item.data.get("language") != "sql" or not item.answer:
        raise InputError(
            f"demonstrator query_plan: item {item.id} is not of source sqlite (answer: {item.answer!r:.80})"
        )
    question = item.prompt.rpartition(") ")[2]
    places = " ".join(f"{column}:{table_of(column)}" for column in COLUMN.findall(question))
    return f"{THINK_OPEN}{places}{sqlite(item, rng, config=SqliteDemonstratorConfig(error_rate=config.error_rate))}"
