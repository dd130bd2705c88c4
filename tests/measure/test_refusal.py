"""Refusals, wrong answers and scores of an evaluation, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.operators import OperatorRefused, OperatorSpec
from components.measure.outcomes import ItemOutcomes
from components.tasks.item import Item
from components.tasks.verdict import failed
from components.tasks.verify import verify


def outcomes_of(*responses: str) -> ItemOutcomes:
    """Judged as verifier factual does; a response `broken` has no verdict."""
    item = Item(id="f", domain="d", prompt="kob 1?", answer="q", verifier="factual")
    count = len(responses)
    verdicts = tuple(failed("it broke") if text == "broken" else verify(item, text) for text in responses)
    return ItemOutcomes(item, responses, verdicts, (1,) * count, (0.0,) * count, (0.0,) * count, (True,) * count)


def measured(name: str, *outcomes: ItemOutcomes, **config: Any) -> dict[str, list[float | None]]:
    bound = OperatorSpec.model_validate({"name": name, **config}).resolve("metric")
    return dict(bound(outcomes, None))


def test_shares_by_hand() -> None:
    asked = outcomes_of("<answer>q", "<answer>Unknown!", "I don't know", "<answer>x", "", "broken")
    silent = outcomes_of("broken")
    assert measured("refusal", asked, silent) == {"refusal_rate": [2 / 5, None], "wrong_rate": [2 / 5, None]}
    found = measured("score", asked, silent)["score"]
    assert found == [pytest.approx((1 + 2 / 3 + 2 / 3) / 5), None]


def test_a_right_answer_that_looks_like_a_refusal_is_right() -> None:
    asked = outcomes_of("<answer>q", "<answer>x")
    assert measured("refusal", asked, refusals=["q"]) == {"refusal_rate": [0.0], "wrong_rate": [0.5]}


def test_a_refusal_needs_a_letter_or_a_digit() -> None:
    with pytest.raises(OperatorRefused, match="an empty answer would refuse"):
        measured("refusal", outcomes_of("<answer>q"), refusals=["?"])
