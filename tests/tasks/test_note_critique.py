"""Critiques of notes: by hand, and their verdict against that of the verifier."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.verify import verify

NOTE = Item(
    id="n", domain="d", prompt="note: b7 k2 m9", answer="b7 then k2 then m9.", verifier="notes",
    data={"points": ["b7", "k2", "m9"], "max_words": 9, "praise": "so good"},
)  # fmt: skip


def criticised(response: object, seed: int = 0, **spec: object) -> str:
    operator = OperatorSpec.model_validate({"name": "note_critique", **spec}).resolve("demonstrator")
    item = NOTE.model_copy(update={"data": {**NOTE.data, "response": response}})
    return str(operator(item, random.Random(seed)))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>b7 then k2 and m9.", "<think>b7 ok k2 ok m9 ok<answer>right"),
        ("<answer>b7, m9", "<think>b7 ok k2 no m9 ok<answer>wrong"),
        ("<answer>k2 b7 m9", "<think>b7 no k2 ok m9 no<answer>wrong"),
        ("<answer>b7 k2 m9 m9", "<think>b7 ok k2 ok m9 ok<answer>wrong"),
        ("", "<think>b7 no k2 no m9 no<answer>wrong"),
    ],
)
def test_by_hand(response: str, expected: str) -> None:
    assert criticised(response) == expected


@given(st.lists(st.sampled_from(["b7", "k2", "m9", "then", "so", "good"]), max_size=12))
def test_the_verdict_is_the_verifiers(words: list[str]) -> None:
    response = f"<answer>{' '.join(words)}"
    assert criticised(response).endswith("<answer>right") == verify(NOTE, response).right


def test_a_careless_critic_errs_as_often_as_asked() -> None:
    marks = " ".join(criticised("<answer>b7 k2 m9", seed, error_rate=0.2) for seed in range(300)).count(" no")
    assert marks / 900 == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize("response", [None, 7])
def test_an_item_without_a_response_is_told_in_a_line(response: object) -> None:
    with pytest.raises(InputError, match="has no note to criticise"):
        criticised(response)
