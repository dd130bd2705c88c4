"""Verifier phrase_order: by hand, by brute force, and with verifier phrases against what source notes wants."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.item import Item
from components.tasks.verify import Outcome, Verdict, verify

POINTS = ["b7", "k2", "m9"]
WORDS = st.lists(st.sampled_from([*POINTS, "then", "x"]), max_size=8)


def judged(text: str, listed: object = POINTS, **settings: object) -> Verdict:
    data = {"phrases": listed, "points": POINTS, "max_words": 99, "settings": settings}
    return verify(Item(id="n", domain="d", prompt="p", answer="", verifier="phrase_order", data=data), text)


@pytest.mark.parametrize(
    ("text", "order", "once"),
    [
        ("b7 then k2 and m9.", 1, 1),
        ("B7, m9", 1, 1),  # what is missing breaks nothing
        ("k2 b7 m9", 2 / 3, 1),
        ("m9 k2 b7", 1 / 3, 1),
        ("b7 k2 b7 m9", 1, 3 / 4),  # first places count
        ("b77 or nothing", 1, 1),
        ("<think>m9 b7 b7<answer>b7 k2", 1, 1),  # the answer alone
    ],
)
def test_by_hand(text: str, order: float, once: float) -> None:
    assert judged(text).score == pytest.approx(order) and judged(text).right == (order == 1)
    assert judged(text, need="once").score == pytest.approx(once)
    assert judged(text, need="once").right == (once == 1)


@given(WORDS)
def test_the_score_is_the_share_that_can_stay(words: list[str]) -> None:
    """By brute force over all subsets of what occurs."""
    places = [POINTS.index(word) for word in words if word in POINTS]
    first = [place for at, place in enumerate(places) if place not in places[:at]]
    subsets = [few for count in range(len(first) + 1) for few in combinations(first, count)]
    longest = max(len(few) for few in subsets if list(few) == sorted(few))
    assert judged(" ".join(words)).score == pytest.approx(longest / len(first) if first else 1)
    again = len(set(places)) / len(places) if places else 1
    assert judged(" ".join(words), need="once").score == pytest.approx(again)


@given(WORDS)
def test_three_checks_together_are_what_source_notes_wants(words: list[str]) -> None:
    text = " ".join(words)
    data = {"points": POINTS, "max_words": 99}
    gold = verify(Item(id="n", domain="d", prompt="p", answer="", verifier="notes", data=data), text)
    named = Item(id="n", domain="d", prompt="p", answer="", verifier="phrases", data={"phrases": POINTS})
    assert gold.right == (verify(named, text).right and judged(text).right and judged(text, need="once").right)


@pytest.mark.parametrize("listed", [None, [], "b7", [""], ["b7", "B7"], [7]])
def test_an_item_without_a_list_of_phrases_is_broken(listed: object) -> None:
    assert judged("b7", listed).outcome is Outcome.FAILED
