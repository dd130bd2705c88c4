"""Notes with flaws: each flaw is one to the verifier, a note without is right, and rates are as asked."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.item import Item
from components.tasks.verify import verify

NOTE = Item(
    id="n", domain="d", prompt="note: b7 k2 m9", answer="b7 then k2 then m9.", verifier="notes",
    data={"points": ["b7", "k2", "m9"], "max_words": 9, "praise": "so good"},
)  # fmt: skip


def written(seed: int = 0, item: Item = NOTE, **config: object) -> str:
    operator = OperatorSpec.model_validate({"name": "flawed_notes", **config}).resolve("demonstrator")
    return str(operator(item, random.Random(seed)))


def test_without_a_flaw_every_note_is_right() -> None:
    texts = [written(seed, sound=1.0) for seed in range(60)]
    assert all(verify(NOTE, text).right for text in texts)
    assert sum(text.endswith("so good") for text in texts) / 60 == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize("flaw", ["drop", "swap", "repeat", "pad"])
def test_a_flaw_is_one_to_the_verifier(flaw: str) -> None:
    texts = [written(seed, flaws=[flaw], sound=0, praise=0) for seed in range(60)]
    assert not any(verify(NOTE, text).right for text in texts)
    named = [[word.strip(".,") for word in text.removeprefix("<answer>").split() if word[1:2].isdigit()]
             for text in texts]  # fmt: skip
    points = NOTE.data["points"]
    for text, found in zip(texts, named, strict=True):
        due = {
            "drop": len(found) == 2 and found == [point for point in points if point in found],
            "swap": sorted(found) == points and found != points,
            "repeat": found[:3] == points and len(found) == 4 and found[-1] in points,
            "pad": found == points and len(text.split()) > 9,
        }
        assert [name for name, holds in due.items() if holds] == [flaw]


def test_flaws_are_drawn_alike() -> None:
    rights = Counter(verify(NOTE, written(seed, sound=0.25)).right for seed in range(800))
    assert rights[True] / 800 == pytest.approx(0.25, abs=0.05)


def test_a_note_of_one_point_has_nothing_to_drop_or_swap() -> None:
    one = NOTE.model_copy(update={"data": {**NOTE.data, "points": ["b7"], "max_words": 3}})
    assert {written(seed, one, flaws=["drop", "swap"], sound=0, praise=0) for seed in range(9)} == {"<answer>b7."}


def test_items_of_other_sources_and_flaws_that_are_none() -> None:
    other = Item(id="x", domain="d", prompt="p", answer="a", verifier="exact")
    with pytest.raises(InputError, match="demonstrator flawed_notes: item x is not of source notes"):
        written(item=other)
    with pytest.raises(OperatorRefused, match="flaws: Tuple should have at least 1 item"):
        written(flaws=[])
