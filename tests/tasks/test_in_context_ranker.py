"""The simulated judge: by hand, and how often it errs with more or less help."""

from __future__ import annotations

import random
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.demonstrators.in_context_ranker import demonstrated_share
from components.tasks.item import Item

NOTE = Item(
    id="n", domain="d", prompt="note: b7 k2", answer="b7 then k2.", verifier="notes",
    data={"points": ["b7", "k2"], "max_words": 6, "praise": "so good"},
)  # fmt: skip
WHOLE, HALF, NONE = "<answer>b7 then k2.", "<answer>b7.", "<answer>so good"


def shown(*ranked: str) -> dict[str, Any]:
    return NOTE.model_copy(update={"data": {**NOTE.data, "ranked": list(ranked)}}).row()


def ranked(responses: Any, demonstrations: Any = (), seed: int = 0, **spec: object) -> str:
    operator = OperatorSpec.model_validate({"name": "in_context_ranker", **spec}).resolve("demonstrator")
    asked = {"responses": responses, "demonstrations": list(demonstrations), "mark": "Verdict 3f:"}
    return str(operator(NOTE.model_copy(update={"data": {**NOTE.data, **asked}}), random.Random(seed)))


def test_by_hand() -> None:
    assert ranked([HALF, NONE, WHOLE], error_rate=0) == "Verdict 3f: 3 > 1 > 2"
    right = [shown(WHOLE, HALF, NONE)]
    assert {ranked([HALF, NONE, WHOLE], right, seed, error_rate=1) for seed in range(40)} == {"Verdict 3f: 3 > 1 > 2"}


def test_the_share_is_that_of_pairs_and_rankings_that_tell_nothing_are_left_out() -> None:
    assert demonstrated_share([]) == 0
    assert demonstrated_share([shown(WHOLE, HALF, NONE)]) == 1
    assert demonstrated_share([shown(NONE, WHOLE, HALF)]) == pytest.approx(1 / 3)
    assert demonstrated_share([shown(WHOLE, HALF), shown(NONE, WHOLE), shown(WHOLE, WHOLE)]) == 0.5


@pytest.mark.parametrize(
    ("demonstrations", "error_rate", "expected"),
    [
        ([], 0.2, 0.2),
        ([shown(WHOLE, HALF), shown(NONE, WHOLE)], 0.6, 0.3),
        ([shown(NONE, WHOLE)], 0.9, 0.5),  # never worse than chance
    ],
)
def test_two_responses_are_confused_as_often_as_told(
    demonstrations: list[dict[str, Any]], error_rate: float, expected: float
) -> None:
    said = [ranked([WHOLE, NONE], demonstrations, seed, error_rate=error_rate) for seed in range(1000)]
    assert said.count("Verdict 3f: 2 > 1") / 1000 == pytest.approx(expected, abs=0.04)


def test_equal_responses_are_drawn() -> None:
    said = [ranked([HALF, "<answer>b7 so"], seed=seed, error_rate=0) for seed in range(400)]
    assert said.count("Verdict 3f: 2 > 1") / 400 == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("responses", [None, "text", [WHOLE]])
def test_an_item_without_responses_is_told_in_a_line(responses: Any) -> None:
    with pytest.raises(InputError, match="has no responses to rank"):
        ranked(responses)


def test_an_item_without_gold_is_told_in_a_line() -> None:
    operator = OperatorSpec.model_validate({"name": "in_context_ranker"}).resolve("demonstrator")
    data = {"responses": [WHOLE, NONE], "demonstrations": [], "mark": ""}
    with pytest.raises(InputError, match="has no gold score: broken item"):
        operator(NOTE.model_copy(update={"data": data}), random.Random(0))
