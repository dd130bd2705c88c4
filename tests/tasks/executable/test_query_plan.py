"""Queries after a thought, and which of them may share a run of the sandbox."""

from __future__ import annotations

import random
import re
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.tasks.domains.tiny_sql import QUERY, TABLES
from components.tasks.item import Item
from components.tasks.sandboxed import Request
from components.tasks.verifiers.executable.sqlite import SqliteVerifierConfig, sqlite
from components.tasks.verify import verify, verify_all
from tests.tasks.executable.domains import draw, write

ITEM = Item(
    id="q",
    domain="d",
    prompt="max age where land = w",
    answer="select max(age) from pet join man using(who) join town using(town) where land='w'",
    verifier="sqlite",
    data={"language": "sql"},
)


def test_a_thought_names_the_table_of_each_column_by_hand() -> None:
    assert write({"name": "query_plan"}, ITEM) == f"<think>age:pet land:town<answer>{ITEM.answer}"
    told = ITEM.model_copy(update={"prompt": "pet(kind,age,who) town(town,size,land) max age where land = w"})
    assert write({"name": "query_plan"}, told) == f"<think>age:pet land:town<answer>{ITEM.answer}"
    slipped = write({"name": "query_plan", "error_rate": 1.0}, ITEM, 3)
    assert slipped.startswith("<think>age:pet land:town<answer>") and not slipped.endswith(ITEM.answer)
    with pytest.raises(InputError, match="query_plan: item q is not of source sqlite"):
        write({"name": "query_plan"}, ITEM.model_copy(update={"data": {}}))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), shown=st.booleans(), conditions=st.sampled_from([1, 2]))
def test_thoughts_agree_with_the_schema_and_cover_the_query(seed: int, shown: bool, conditions: int) -> None:
    """The reference: a database says which of its tables has a column."""
    database = sqlite3.connect(":memory:")
    for table, columns in TABLES.items():
        database.execute(f"create table {table}({', '.join(columns)})")
    for item in draw({"name": "sqlite", "schema_shown": shown, "conditions": conditions}, 5, seed):
        thought, _, query = write({"name": "query_plan"}, item, seed).removeprefix("<think>").partition("<answer>")
        pairs = [place.split(":") for place in thought.split()]
        for column, table in pairs:
            database.execute(f"select {column} from {table}")
            assert re.search(rf"\b{table}\b", query)
        assert len(pairs) == 1 + conditions
        assert all(re.search(rf"\b{column}\b", query) for column, _ in pairs)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), conditions=st.sampled_from([1, 2]))
def test_queries_of_the_grammar_share_a_run_whether_right_or_wrong(seed: int, conditions: int) -> None:
    source = {"name": "sqlite", "conditions": conditions, "aggregates": ["plain", "count", "max", "min", "sum"]}
    for item in draw(source, 10, seed):
        assert QUERY.fullmatch(item.answer)
        written = write({"name": "sqlite", "error_rate": 1.0}, item, seed)
        request = sqlite(item, written, config=SqliteVerifierConfig())
        assert isinstance(request, Request) and request.shared


@pytest.mark.parametrize(
    "text",
    [
        "select age from pet",
        "select randomblob(age) from pet where age>1",
        "select age from sqlite_master where age>1",
        "select age from pet where age>1 or age<9",
        "select age from pet where age>(select max(age) from pet)",
        "select age from pet where kind='cat' and age>1 and age<9",
        "select age from pet join man using(who) join town using(town) join man using(who) where land='w'",
        "select age from pet where age>1; drop table pet",
        "select age from pet where age>1\n",
        "attach 'x' as y",
    ],
)
def test_any_other_text_has_a_run_of_its_own(text: str) -> None:
    (item,) = draw({"name": "sqlite"}, 1)
    request = sqlite(item, f"```sql\n{text}\n```", config=SqliteVerifierConfig())
    assert QUERY.fullmatch(text) is None
    assert isinstance(request, Request) and (not request.shared or text.endswith("\n"))


def test_a_shared_run_gives_the_verdicts_of_single_ones() -> None:
    items = draw({"name": "sqlite"}, 24, 5)
    rng = random.Random(5)
    written = [write({"name": "query_plan", "error_rate": 0.6}, item, rng.randrange(1000)) for item in items]
    together = verify_all(zip(items, written, strict=True))
    assert together == [verify(item, text) for item, text in zip(items, written, strict=True)]
    assert len({verdict.score for verdict in together}) >= 3
