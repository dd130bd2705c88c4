"""Notes behind a thought, read by the verifier as notes without one are."""

from __future__ import annotations

import random

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.verify import verify

NOTE = Item(
    id="n", domain="d", prompt="note: b7 k2", answer="b7 then k2.", verifier="notes",
    data={"points": ["b7", "k2"], "max_words": 6, "praise": "so good"},
)  # fmt: skip


def write(seed: int = 0, item: Item = NOTE, **spec: object) -> str:
    operator = OperatorSpec.model_validate({"name": "drafted_notes", **spec}).resolve("demonstrator")
    return str(operator(item, random.Random(seed)))


def test_a_thought_holds_the_points_and_the_note_follows() -> None:
    assert write(praise=1.0).startswith("<think>b7 k2<answer>b7") and write(praise=1.0).endswith("k2. so good")
    assert write(thought=0.0).startswith("<answer>b7")
    assert verify(NOTE, write()).right and not verify(NOTE, write(drop=1.0)).right


def test_the_share_of_thoughts() -> None:
    share = sum(write(seed, thought=0.3).startswith("<think>") for seed in range(400)) / 400
    assert share == pytest.approx(0.3, abs=0.08)


def test_an_item_of_another_source_is_told_in_a_line() -> None:
    with pytest.raises(InputError, match="is not of source notes"):
        write(item=NOTE.model_copy(update={"data": {}}))
