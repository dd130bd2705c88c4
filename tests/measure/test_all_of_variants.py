"""Groups of claims: a group counts by the product of its variants, and a verdict that is given too often shows."""

from __future__ import annotations

import random

import pytest

from components.measure.outcomes import ItemOutcomes
from components.tasks.item import Item
from components.tasks.verdict import failed
from components.tasks.verify import verify
from tests.measure.test_refusal import measured
from tests.tasks.test_worlds import items, write


def judged(item: Item, *answers: str) -> ItemOutcomes:
    responses = tuple(f"<answer>{answer}" for answer in answers)
    verdicts = tuple(failed("it broke") if "broken" in text else verify(item, text) for text in responses)
    count = len(responses)
    return ItemOutcomes(item, responses, verdicts, (1,) * count, (0.0,) * count, (0.0,) * count, (True,) * count)


def claim(group: str | None, answer: str, variants: int = 2) -> Item:
    data = {} if group is None else {"group": group, "num_variants": variants}
    return Item(id=f"{group}-{answer}", domain="d", prompt="p", answer=answer, verifier="exact", data=data)


def test_groups_by_hand() -> None:
    outcomes = [
        judged(claim("a", "true"), "true", "True", "true", "false"),  # 3/4
        judged(claim("b", "true"), "true", "broken"),
        judged(claim("a", "false"), "true", "false", "", "broken"),  # 1/3
        judged(claim("c", "true"), "true"),  # the other variant is missing
        judged(claim("b", "false"), "broken"),  # never judged
        judged(claim(None, "false"), "false", "true"),  # by itself
    ]
    found = measured("all_of_variants", *outcomes)
    assert found["all_of_variants"] == [pytest.approx(1 / 4), None, None, None, None, 1 / 2]
    expected = [3 / 4 - 1, 0.0, 1 / 3, 0.0, None, 1 / 2]
    assert found["verdict_bias"] == [value if value is None else pytest.approx(value) for value in expected]
    assert measured("all_of_variants", outcomes[2], verdict="FALSE")["verdict_bias"] == [pytest.approx(1 / 3 - 1)]


def test_guessing_passes_half_to_the_power_of_the_variants() -> None:
    rng = random.Random(0)
    rows = items({"name": "claims", "min_terms": 5, "max_terms": 5}, 900)
    guessed = [judged(item, *(rng.choice(["true", "false"]) for _ in range(4))) for item in rows]
    values = [value for value in measured("all_of_variants", *guessed)["all_of_variants"] if value is not None]
    assert len(values) == 300 and abs(sum(values) / 300 - 0.5**3) < 0.04
    worked = [judged(item, write(item, name="claims").rpartition(">")[2]) for item in rows]
    assert set(measured("all_of_variants", *worked)["all_of_variants"]) == {1.0, None}
