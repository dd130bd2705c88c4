"""How near a row is to an item: against sets of shingles made here, and by hand."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from pipelines.provenance.nearest import LEAST, NGRAM, Asked, How, Nearest


def _jaccard(left: str, right: str) -> float:
    """Compare two texts by sets of character n-grams of their words, without the code under test."""

    def grams(text: str) -> set[str]:
        plain = " ".join(re.findall(r"\w+|[^\w\s]", unicodedata.normalize("NFKC", text).casefold()))
        if not plain:
            return set()
        return {plain[at : at + NGRAM] for at in range(max(1, len(plain) - NGRAM + 1))}

    own, other = grams(left), grams(right)
    return len(own & other) / len(own | other) if own | other else 0.0


def _item(prompt: str, id: str = "sums-1") -> Asked:
    return Asked(id, "sums", prompt, "7")


def test_the_kinds_of_nearness_in_their_order() -> None:
    item = _item("Add 3 and 4")
    nearest = Nearest([item])
    rows = [
        {"id": "other-1", "prompt": "Spell a word backward"},
        {"id": "sums-2", "prompt": "Add 3 and 5"},
        {"id": "text-1", "text": "He said: add 3 and 4, then stop."},
        {"id": "sums-3", "prompt": "add  3 and 4"},
        {"prompt_id": "sums-1", "prompt": "Add 3 and 4", "response": "7"},
        {"id": "text-2", "text": "add 13 and 4"},
    ]
    for row in rows:
        nearest.take(row)
    found = nearest.of(item)
    assert [(near.how, near.number) for near in found] == [
        (How.ID, 4),
        (How.TEXT, 3),
        (How.HOLDS, 2),
        (How.SIMILAR, 1),
        (How.SIMILAR, 5),
    ]
    # "add 3 and 4" has the 4-grams add_ dd_3 d_3_ _3_a 3_an _and and_ nd_4; "add 3 and 5" shares all but the last
    assert found[3].similarity == 7 / 9
    assert nearest.num_rows == 6


@given(
    st.text(alphabet="ab 1+", min_size=1, max_size=14),
    st.lists(st.text(alphabet="ab 1+", max_size=14), min_size=1, max_size=8),
)
def test_similarities_are_those_of_plain_sets(prompt: str, texts: list[str]) -> None:
    item = _item(prompt)
    nearest = Nearest([item], most=len(texts))
    for text in texts:
        nearest.take({"prompt": text})
    found = {near.number: near for near in nearest.of(item)}
    for number, text in enumerate(texts):
        expected = _jaccard(prompt, text)
        if number in found:
            assert found[number].similarity == expected
        else:
            assert expected < LEAST


def test_only_the_nearest_are_kept_and_of_equal_ones_the_first() -> None:
    item = _item("Add 3 and 4")
    nearest = Nearest([item], most=2)
    for _ in range(4):
        nearest.take({"prompt": "Add 3 and 4"})
    assert [near.number for near in nearest.of(item)] == [0, 1]


def test_rows_of_other_programs_are_passed_over() -> None:
    item = _item("Add 3 and 4")
    nearest = Nearest([item, _item("", "empty")])
    for row in ({}, {"prompt": None}, {"text": 3}, {"prompt": ["Add 3 and 4"]}):
        nearest.take(row)
    assert nearest.of(item) == [] and nearest.of(_item("", "empty")) == []
