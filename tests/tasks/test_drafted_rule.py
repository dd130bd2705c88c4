"""Drafted answers: by hand, as the verifier reads them, and consistent where they err."""

from __future__ import annotations

import random
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import verify

WORD = Item(
    id="w-1",
    domain="words",
    prompt="up: abcd",
    answer="bcde",
    verifier="exact",
    data={"word": "abcd", "letters": 10, "rules": ["up"]},
)


def write(seed: int = 0, item: Item = WORD, **spec: Any) -> str:
    operator = OperatorSpec.model_validate({"name": "drafted_rule", **spec}).resolve("demonstrator")
    return operator(item, random.Random(seed))


def test_drafts_precede_the_answer() -> None:
    assert write() == "<think>bcde<answer>bcde"
    assert write(drafts=3) == "<think>bcde bcde bcde<answer>bcde"
    assert write(rule="reverse", mark=True) == "R<think>dcba<answer>dcba"
    assert verify(WORD, write(drafts=2)).right and not verify(WORD, write(rule="down")).right


def test_a_wrong_letter_stands_in_every_draft() -> None:
    wrong = 0
    for seed in range(200):
        thought, _, answer = write(seed, drafts=2, letter_error_rate=0.25).partition("<answer>")
        assert thought == f"<think>{answer} {answer}" and extract_answer(answer) == answer
        wrong += answer != WORD.answer
    assert 0.55 < wrong / 200 < 0.8  # 1 - 0.75^4 is 0.68


def test_other_items_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="item w-1 is not of source rules"):
        write(item=WORD.model_copy(update={"data": {}}))
