"""Patterns in responses: counted by hand, and in any text as str.count does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.measure.outcomes import ItemOutcomes
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.measure.test_refusal import measured


def written(*responses: str) -> ItemOutcomes:
    item = Item(id="a", domain="d", prompt="p", answer="1", verifier="exact")
    count = len(responses)
    verdicts = tuple(verify(item, text) for text in responses)
    return ItemOutcomes(item, responses, verdicts, (1,) * count, (0.0,) * count, (0.0,) * count, (True,) * count)


def test_by_hand() -> None:
    outcomes = written("3 no 4 no 5", "no", "know", "")
    assert measured("occurrences", outcomes, pattern=r"\bno\b") == {"occurrences": [3 / 4], "occurring": [2 / 4]}
    assert measured("occurrences", written("Wait, let me check", "so"))["occurrences"] == [1.0]


@given(st.lists(st.text("ab ", max_size=12), min_size=1, max_size=4))
def test_agrees_with_str_count(texts: list[str]) -> None:
    found = measured("occurrences", written(*texts), pattern="ab")
    assert found["occurrences"] == [pytest.approx(sum(text.count("ab") for text in texts) / len(texts))]
    assert found["occurring"] == [pytest.approx(sum("ab" in text for text in texts) / len(texts))]


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(InputError, match="not a regular expression"):
        OperatorSpec.model_validate({"name": "occurrences", "pattern": "("}).resolve("metric")
