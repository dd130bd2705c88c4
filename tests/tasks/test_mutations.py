"""Mutated answers differ from the right one by more than a fair verifier overlooks."""

from __future__ import annotations

import random

from hypothesis import example, given
from hypothesis import strategies as st

from components.tasks.item import Item
from components.tasks.mutations import mutate
from components.tasks.verify import Outcome, verify

LENIENT = {"settings": {"punctuation": False, "case": False}}


@example("1", 1)  # two less is its opposite, and the sign is punctuation
@example("\u00aa", 0)  # a letter that is the variant of another: compared in one form they are the same
@given(st.text(min_size=1).filter(lambda text: any(c.isalnum() for c in text)), st.integers(0, 2**32))
def test_no_text_is_mutated_into_itself(answer: str, seed: int) -> None:
    item = Item(id="x", domain="x", prompt="?", answer=answer, verifier="exact", data=LENIENT)
    mutated = mutate(answer, random.Random(seed))
    if "<answer>" not in mutated + answer:
        assert verify(item, f"<answer>{mutated}").outcome is not Outcome.RIGHT


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6), st.integers())
def test_numbers_move_beyond_rounding(value: object, seed: int) -> None:
    data = {"settings": {"relative_tolerance": 0.01}}
    item = Item(id="x", domain="x", prompt="?", answer=str(value), verifier="numeric", data=data)
    integers = value == int(value)  # type: ignore[call-overload]
    mutated = mutate(str(value), random.Random(seed))
    if value and not integers:
        assert verify(item, mutated).outcome is Outcome.WRONG
    assert mutated != str(value)


def test_equal_seeds_give_equal_mutations() -> None:
    assert [mutate("backward", random.Random(3)) for _ in range(3)] == [mutate("backward", random.Random(3))] * 3
