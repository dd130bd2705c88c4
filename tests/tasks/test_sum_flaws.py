"""Flaws in worked sums, critics that name them and a reviser: by hand, and against one another for any sum."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.critique_units import agreement, units_of, voted, written
from components.tasks.domains.sum_flaws import KINDS, flaws_of
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR
from tests.tasks.test_sum_revision import sum_item

DUE = 4, [("+", 7), ("-", 3)]


def write(name: str, item: Item, seed: int = 0, **config: object) -> str:
    return OperatorSpec.model_validate({"name": name, **config}).resolve(DEMONSTRATOR)(item, random.Random(seed))


@pytest.mark.parametrize(
    ("response", "flaws"),
    [
        ("<think>4+7=11 11-3=8<answer>8", []),
        ("<think>4+6=10 10-3=7<answer>7", [(1, "term")]),
        ("<think>4-7=-3 -3-3=-6<answer>-6", [(1, "sign")]),
        ("<think>4+7=12 12-3=9<answer>9", [(1, "slip")]),
        ("<think>4+7=11 11+2=14<answer>14", [(2, "term"), (2, "sign"), (2, "slip")]),
        ("<think>4+7=11 12-3=9<answer>9", [(2, "slip")]),  # it begins from another total
        ("<think>4+7=11 what<answer>8", [(2, "slip")]),
        ("", [(1, "slip"), (2, "slip")]),
    ],
)
def test_flaws_by_hand(response: str, flaws: list[tuple[int, str]]) -> None:
    assert flaws_of(*DUE, response) == flaws


@pytest.mark.parametrize(
    ("response", "critique", "revised"),
    [
        ("<think>4+6=10 10-3=7<answer>7", "1 term", "<think>4+7=11 11-3=8<answer>8"),
        ("<think>4+6=10 10-3=7<answer>7", "none", "<think>4+6=10 10-3=7<answer>7"),
        ("<think>4+7=12 12-3=9<answer>9", "1 slip", "<think>4+7=11 11-3=8<answer>8"),
        ("<think>4+7=12 12-3=9<answer>9", "2 slip", "<think>4+7=12 12-3=9<answer>9"),
        ("<think>4-7=-3 -3-3=-6<answer>-6", "1 sign", "<think>4+7=11 11-3=8<answer>8"),
        ("<think>4+7=11 11-3=8<answer>8", "2 sign", "<think>4+7=11 11+3=14<answer>14"),
        ("<think>4+7=11<answer>11", "2 slip, 2 what", "<think>4+7=11 11-3=8<answer>8"),
    ],
)
def test_revisions_by_hand(response: str, critique: str, revised: str) -> None:
    item = sum_item(response=response, critique=f"<answer>{critique}")
    assert write("flaw_revision", item) == revised


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 2**20), st.sets(st.sampled_from(KINDS)))
def test_critics_name_what_they_see_and_a_whole_critique_mends_all(
    terms: list[int], seed: int, misses: set[str]
) -> None:
    expression = " ".join([str(terms[0]), *(f"{'+-'[seed >> at & 1]} {term}" for at, term in enumerate(terms[1:]))])
    item = sum_item(expression)
    response = write("flawed_sum", item, seed, flaw_rate=0.6)
    seen = sum_item(expression, response=response)
    whole = units_of(write("flaw_critique", seen, seed)) or []
    part = units_of(write("flaw_critique", seen, seed, misses=sorted(misses))) or []
    assert part == [unit for unit in whole if unit.split()[1] not in misses]
    mended = sum_item(expression, response=response, critique=f"<answer>{written(whole)}")
    assert extract_answer(write("flaw_revision", mended)) == item.answer
    assert (not whole) == (response == write("flawed_sum", item, seed, flaw_rate=0.0))


def test_a_careless_critic_sees_what_is_not_there() -> None:
    item = sum_item(response="<think>4+7=11 11-3=8<answer>8")
    found = [len(units_of(write("flaw_critique", item, seed, false_rate=0.5)) or ()) for seed in range(400)]
    assert 0.85 < sum(found) / 400 < 1.15  # two steps at a half each


@pytest.mark.parametrize("name", ["flawed_sum", "flaw_critique", "flaw_revision"])
def test_other_items_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="is no chain_sum"):
        write(name, Item(id="w", domain="d", prompt="p", answer="a", verifier="exact"))


class TestUnits:
    @pytest.mark.parametrize(
        ("text", "units"),
        [
            ("<answer>2 sign, 3 slip", ["2 sign", "3 slip"]),
            ("<answer> 2  Sign,3 slip , 2 sign", ["2 sign", "3 slip"]),
            ("<answer>none", []),
            ("<answer>none, 1 term", ["1 term"]),
            ("<answer>", None),
            (" , ", None),
        ],
    )
    def test_reading_by_hand(self, text: str, units: list[str] | None) -> None:
        assert units_of(text) == units

    @given(st.lists(st.sets(st.sampled_from("abcd")), max_size=5), st.integers(1, 4))
    def test_votes_by_counting(self, critiques: list[set[str]], votes: int) -> None:
        expected = [unit for unit in "abcd" if sum(unit in one for one in critiques) >= votes]
        assert voted([sorted(one) for one in critiques], votes) == expected

    @given(st.sets(st.sampled_from("abcde")), st.sets(st.sampled_from("abcde")))
    def test_agreement_is_the_harmonic_mean(self, ours: set[str], gold: set[str]) -> None:
        precision, recall, f1 = agreement(ours, gold)
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
        assert (f1 == 1.0) == (ours == gold)
