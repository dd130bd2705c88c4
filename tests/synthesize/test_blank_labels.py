"""Labelled responses without text are dropped and counted: a stage that learns from labels refuses them."""

from __future__ import annotations

from components.synthesize.made import BLANK, Dropped, Made, source_rows
from components.tasks.item import Item
from components.tasks.source import BadRow, SourceRow

ITEM = Item(id="p", domain="A", prompt="1 + 1 =", answer="2", verifier="exact")


def test_blank_responses_are_dropped_where_they_are_labelled_and_nowhere_else() -> None:
    rows = [Made(ITEM, text, {"label": False}) for text in ("3", "", " \n", "2")]
    found = list(source_rows([*rows, Dropped("wrong")], "chunk 1", kind="labelled"))
    assert [row.response if isinstance(row, SourceRow) else row.reason for row in found] == [
        "3",
        BLANK,
        BLANK,
        "2",
        "wrong",
    ]
    assert not any(isinstance(row, BadRow) for row in source_rows(rows, "chunk 1", kind="demonstrations"))
    assert not any(isinstance(row, BadRow) for row in source_rows([Made(ITEM)], "chunk 1", kind="prompts"))
