"""Queries for items of source sqlite, some of them careless."""

from __future__ import annotations

import random
import re

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.tiny_sql import OWN
from components.tasks.item import Item

JOIN = re.compile(r" join \w+ using\(\w+\)")
COLUMNS = [column for own in OWN.values() for column in own]


class SqliteDemonstratorConfig(Params):
    """How careful the analyst is."""

    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability of a slip: a join forgotten, a column taken for another, or a sign turned round."""


def sqlite(item: Item, rng: random.Random, *, config: SqliteDemonstratorConfig) -> str:
    """Write `<answer>select age from pet where kind='cat'`."""
    if item.data.get("language") != "sql" or not item.answer:
        raise InputError(f"demonstrator sqlite: item {item.id} is not of source sqlite (answer: {item.answer!r:.80})")
    slip = rng.random() < config.error_rate
    return f"{ANSWER_OPEN}{_slip(item.answer, rng) if slip else item.answer}"


def _slip(query: str, rng: random.Random) -> str:
    kind = rng.choice(("join", "column", "sign"))
    if kind == "join" and JOIN.search(query):
        return JOIN.sub("", query, count=1)
    if kind == "sign" and re.search("[<>]", query):
        return query.translate(str.maketrans("<>", "><"))
    column = rng.choice([name for name in COLUMNS if name in query])
    return query.replace(column, rng.choice([name for name in COLUMNS if name != column]))
