"""Revisions of worked sums: by hand, and for any attempt and any critic, against the critic's own arithmetic."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "sum_revision", "words": ["right", " Right"]},
        {"name": "sum_revision", "marks": ["ok", "OK"]},
        {"name": "sum_check", "words": ["", "wrong"]},
    ],
)
def test_words_that_are_the_same_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match="two different texts"):
        OperatorSpec.model_validate(settings).resolve(DEMONSTRATOR)


def sum_item(expression: str = "4 + 7 - 3", **data: object) -> Item:
    answer = str(eval(expression))
    return Item(
        id="s", domain="d", prompt=expression, answer=answer, verifier="exact",
        data={"metadata": {"expression": expression}, **data},
    )  # fmt: skip


def write(name: str, item: Item, seed: int = 0, **config: object) -> str:
    return OperatorSpec.model_validate({"name": name, **config}).resolve(DEMONSTRATOR)(item, random.Random(seed))


@pytest.mark.parametrize(
    ("response", "critique", "revised"),
    [
        ("<think>4+7=11 11-3=9<answer>9", "4+7=11 ok 11-3=9 no 11-3=8<answer>wrong", "<think>4+7=11 11-3=8<answer>8"),
        ("<think>4+7=12 12-3=9<answer>9", "<think>4+7=12 no 4+7=11<answer>wrong", "<think>4+7=11 11-3=8<answer>8"),
        ("<think>4+7=11 11-3=8<answer>8", "<think>4+7=11 no 4+7=12<answer>wrong", "<think>4+7=12 12-3=9<answer>9"),
        ("x", "<think>4+7=11 ok<answer>right", "x"),
        ("x", "no verdict at all", "x"),
        ("x", "<answer>WRONG", "<think>4+7=11 11-3=8<answer>8"),
        ("x", "<think>9+9=18 ok 11-3=0 ok<answer>wrong", "<think>4+7=11 11-3=8<answer>8"),
    ],
)  # fmt: skip
def test_by_hand(response: str, critique: str, revised: str) -> None:
    assert write("sum_revision", sum_item(response=response, critique=critique)) == revised


@given(
    st.lists(st.integers(-9, 9), min_size=2, max_size=6),
    st.integers(0, 2**20),
    st.sampled_from(["redo", "go_on", "stop"]),
)
def test_a_critic_that_never_errs_mends_all_and_spoils_nothing(terms: list[int], seed: int, after: str) -> None:
    expression = " ".join([str(terms[0]), *(f"{'+' if term >= 0 else '-'} {abs(term)}" for term in terms[1:])])
    response = write("chain_sum_trace", sum_item(expression), seed, step_error_rate=0.4)
    critique = write("sum_critique", sum_item(expression, response=response), seed, after=after)
    item = sum_item(expression, response=response, critique=critique)
    revised = write("sum_revision", item, seed)
    assert extract_answer(revised) == item.answer
    if extract_answer(response) == item.answer and critique.endswith("right"):
        assert revised == response


def test_its_own_steps_may_err() -> None:
    item = sum_item(response="x", critique="<answer>wrong")
    assert write("sum_revision", item, step_error_rate=1.0) != write("sum_revision", item)


def test_an_item_without_a_critique_or_a_sum_is_refused() -> None:
    with pytest.raises(InputError, match="no response with a critique"):
        write("sum_revision", sum_item(response="x"))
    bare = Item(
        id="w",
        domain="d",
        prompt="p",
        answer="a",
        verifier="exact",
        data={"response": "x", "critique": "<answer>wrong"},
    )
    with pytest.raises(InputError, match="no chain_sum"):
        write("sum_revision", bare)


@pytest.mark.parametrize(
    ("response", "critique"),
    [
        ("<answer>8", "<think>4+7=11 11-3=8 8-8=0<answer>right"),
        ("<think>4+7=12<answer>9", "<think>4+7=11 11-3=8 8-9=-1<answer>wrong"),
        ("<answer>-3", "<think>4+7=11 11-3=8 8--3=11<answer>wrong"),
        ("<answer>eight", "<think>4+7=11 11-3=8<answer>wrong"),
        ("<answer>8.5", "<think>4+7=11 11-3=8<answer>wrong"),
        ("<answer>1e999", "<think>4+7=11 11-3=8<answer>wrong"),
    ],
)
def test_a_check_by_hand_and_a_revision_by_it(response: str, critique: str) -> None:
    assert write("sum_check", sum_item(response=response)) == critique
    revised = write("sum_revision", sum_item(response=response, critique=critique))
    assert revised == (response if critique.endswith("right") else "<think>4+7=11 11-3=8<answer>8")


def test_a_careless_check_errs_and_its_verdict_follows() -> None:
    found = [write("sum_check", sum_item(response="<answer>8"), seed, step_error_rate=0.2) for seed in range(300)]
    wrong = sum(text.endswith("wrong") for text in found) / 300
    assert 0.3 < wrong < 0.55  # 1 - 0.8^3 = 0.49, less slips that cancel
    assert all(text.endswith("right") == text.rpartition("<answer>")[0].endswith("=0") for text in found)
    with pytest.raises(InputError, match="no chain_sum with a response"):
        write("sum_check", sum_item())
