"""Lists of principles: there and back, their verdict against the rubric's total, and what is no list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from components.contract.errors import InputError
from components.tasks.item import Item
from components.tasks.principles import (
    Principles,
    example,
    examples_of,
    held,
    list_of,
    list_row,
    rubric_from,
    tasks_of,
)
from components.tasks.rubric import Criterion, checks
from components.tasks.verify import verify_all
from tests.rl.build import context, operator
from tests.rl.operators.test_rewards import answers
from tests.synthesize.scripted import item

POINTS = {"name": "points", "verifier": {"name": "phrases", "key": "points"}, "of_item": True}
ORDER = {"name": "order", "verifier": {"name": "phrase_order", "key": "points"}, "of_item": True}
SHORT = {"name": "short", "verifier": {"name": "word_count", "most": 3}}
NOTE = item("n", "note: b7 k2", "b7 then k2.", "notes", points=["b7", "k2"], max_words=6)
WORDS = st.lists(st.sampled_from(["b7", "k2", "then"]), max_size=5)


def made(*principles: dict[str, Any]) -> tuple[Criterion, ...]:
    return TypeAdapter(Principles).validate_python(principles)


def test_a_list_is_a_row_and_comes_back() -> None:
    principles = made(POINTS, ORDER, SHORT)
    row = list_row(principles)
    assert row.prompt.splitlines()[1:] == [
        "- points: phrases key=points", "- order: phrase_order key=points", "- short: word_count most=3",
    ]  # fmt: skip
    read = Item.model_validate(json.loads(json.dumps(row.row())))
    assert list_of([NOTE, read, read], "x") == principles, "the same row twice is one list"


def test_which_principles_hold_by_hand() -> None:
    texts = ["b7 then k2.", "k2 then b7.", "b7", "b7 and k2 at last"]
    expected = [[True, True, True], [True, False, True], [False, True, True], [True, True, False]]
    assert held(made(POINTS, ORDER, SHORT), [(NOTE, text) for text in texts]) == expected


@given(WORDS)
def test_the_reward_of_a_list_is_whether_all_of_it_holds(words: list[str]) -> None:
    """Against the rubric's own total, and the reward that reads it."""
    text, principles = " ".join(words), made(POINTS, ORDER, SHORT)
    rubric = rubric_from(principles)
    scores = [verdict.score for verdict in verify_all((check, text) for check in checks(NOTE, rubric))]
    total = rubric.total(dict(zip(("points", "order", "short"), scores, strict=True)))
    assert total == float(all(held(principles, [(NOTE, text)])[0]))
    batch = answers([text], "z", points=["b7", "k2"], rubric=rubric.model_dump(mode="json"))
    assert operator("reward", "rubric")(batch, context()).tolist() == [total]


def test_examples_tasks_and_the_list_are_told_apart() -> None:
    taught = NOTE.model_copy(update={"id": "e", "data": example(NOTE, "b7", good=False)})
    pool = [NOTE, taught, list_row(made(POINTS))]
    assert tasks_of(pool) == [NOTE]
    assert examples_of(pool, "x") == [(taught, "b7", False)] and taught.data["points"] == ["b7", "k2"]


def test_what_is_no_list_is_told_in_a_line() -> None:
    for pool, count in (([NOTE], 0), ([list_row(made(POINTS)), list_row(made(SHORT))], 2)):
        with pytest.raises(InputError, match=f"^gen: {count} lists of principles among the inputs, expected one"):
            list_of(pool, "gen")
    broken = NOTE.model_copy(update={"data": {"principles": [{"name": "a", "verifier": "exct"}]}})
    with pytest.raises(InputError, match=r"data\.principles of item n is no rubric: .*did you mean 'exact'"):
        list_of([broken], "gen")
    points = NOTE.model_copy(update={"data": {"principles": [{**SHORT, "weight": 2}]}})
    with pytest.raises(InputError, match="principle short: it holds or does not, and has no weight"):
        list_of([points], "gen")
    with pytest.raises((ValidationError, InputError), match="principle short is there twice"):
        made(SHORT, SHORT)
    lame = NOTE.model_copy(update={"data": {"good": True}})
    with pytest.raises(InputError, match="gen: example n has no response with a label"):
        examples_of([lame], "gen")


def test_a_principle_that_cannot_be_checked_stops() -> None:
    other = item("o", "p", "a", "exact")
    with pytest.raises(InputError, match=r"principle points cannot be checked on item o: .*data\.points"):
        held(made(SHORT, POINTS), [(other, "b7")])
