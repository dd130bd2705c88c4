"""Words under constraints: by hand, against a plain check, and what no plan and hostile text lead to."""

from __future__ import annotations

import random
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.domains.worlds.chained_words import num_held, sums_from_the_end, values_of, word_of
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verify import Outcome, verify


def items(count: int, seed: int = 0, **spec: Any) -> list[Item]:
    source = OperatorSpec.model_validate({"name": "soft_constraints", **spec}).resolve("source")
    rows = islice(source(SourceRequest(seed, count, Path())).rows, count)
    return [row.item("d") for row in rows if isinstance(row, SourceRow)]


def write(item: Item, seed: int = 0, **spec: Any) -> str:
    operator = OperatorSpec.model_validate({"name": "soft_constraints", **spec}).resolve("demonstrator")
    return str(operator(item, random.Random(seed)))


DBE = Item(
    id="n", domain="d", prompt="chain: dbe", answer="dae", verifier="soft_constraints",
    data={"given": "dbe", "letters": 5},
)  # fmt: skip


@pytest.mark.parametrize(
    ("word", "score"),
    [
        ("dae", 1.0),
        ("ebd", 1 / 3),  # e = d + b holds, b is not b + d, and d is not e
        ("aca", 1 / 3),  # a guess: a is not d + c
        ("aac", 0.0),
        ("bda", 1 / 3),
        ("dabe", 1 / 4),  # its first three letters keep d = d + a alone
        ("daee", 3 / 4),
        ("da", 1 / 3),
        ("", 0.0),
        ("DAE", 0.0),
        ("zae", 2 / 3),
        ("d a e", 0.0),
    ],
)
def test_by_hand(word: str, score: float) -> None:
    verdict = verify(DBE, f"<think>zzz<answer>{word}")
    assert verdict.score == pytest.approx(score) and verdict.right == (score == 1)


def plain(asked: str, word: str, letters: int) -> int:
    """Check the constraints one by one, in letters."""
    alphabet, kept = "abcdefghij"[:letters], 0
    for place, letter in enumerate(asked):
        last = place == len(asked) - 1
        moved = "a" if last else (word[place + 1] if place + 1 < len(word) else "?")
        if moved in alphabet and place < len(word):
            kept += word[place] == alphabet[(alphabet.index(letter) + alphabet.index(moved)) % letters]
    return kept


@given(st.integers(2, 10).flatmap(lambda n: st.tuples(st.just(n), *[st.text("abcdefghij"[:n] + "?", max_size=6)] * 2)))
def test_agrees_with_a_plain_check(case: tuple[int, str, str]) -> None:
    letters, asked, word = case
    asked = asked.replace("?", "a") or "a"
    assert num_held(asked, word, letters) == plain(asked, word, letters)


@given(st.integers(2, 4), st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_one_word_alone_keeps_all(letters: int, values: list[int]) -> None:
    values = [value % letters for value in values]
    asked, words = word_of(values), ("".join(word) for word in product("abcd"[:letters], repeat=len(values)))
    assert [word for word in words if num_held(asked, word, letters) == len(asked)] == [
        word_of(sums_from_the_end(values, letters))
    ]


def test_a_guess_at_the_first_letter_can_keep_all_but_the_last_constraint() -> None:
    for item in items(20):
        letters, asked = item.data["letters"], values_of(item.data["given"], item.data["letters"])
        assert asked is not None
        for guess in range(letters):
            word = [guess]
            for value in asked[:-1]:
                word.append((word[-1] - value) % letters)
            right = word_of(word) == item.answer
            assert verify(item, f"<answer>{word_of(word)}").score == pytest.approx(1.0 if right else 0.8)


def test_items_are_seeded_and_have_their_gold_word() -> None:
    found = items(50, least=2, most=4, letters=3)
    assert found == items(50, least=2, most=4, letters=3) != items(50, seed=1, least=2, most=4, letters=3)
    assert {len(item.answer) for item in found} == {2, 3, 4} and set("".join(item.answer for item in found)) == set(
        "abc"
    )
    assert all(verify(item, f"<answer>{item.answer}").right for item in found)


def test_writers_think_from_the_end_or_write_at_once() -> None:
    assert write(DBE) == "<think>eebadd<answer>dae" and write(DBE, think=False) == "<answer>dae"


@pytest.mark.parametrize("think", [True, False])
def test_careless_steps_break_one_constraint_each_and_careless_letters_up_to_two(think: bool) -> None:
    found = items(600)
    steps = [verify(item, write(item, at, think=think, step_error_rate=0.3)).score for at, item in enumerate(found)]
    assert sum(steps) / len(steps) == pytest.approx(0.7, abs=0.03)
    text = [write(item, at, think=True, letter_error_rate=1.0) for at, item in enumerate(found)]
    right = [write(item).partition("<answer>")[0] for item in found]
    assert [one.partition("<answer>")[0] for one in text] == right, "the thought stays right"
    # the last letter is always wrong; another constraint holds where both of its letters are off by as much: 1 in 4
    letters = [verify(item, one).score for item, one in zip(found, text, strict=True)]
    assert sum(letters) / len(letters) == pytest.approx(0.8 / 4, abs=0.03)


@pytest.mark.parametrize("data", [{}, {"given": "", "letters": 5}, {"given": "dbe", "letters": 3}, {"given": 7}])
def test_a_broken_item_is_told(data: dict[str, Any]) -> None:
    broken = DBE.model_copy(update={"data": {"letters": 5, **data}})
    assert verify(broken, "<answer>dae").outcome is Outcome.FAILED
    with pytest.raises(InputError, match="item n is not of source soft_constraints"):
        write(broken)


@pytest.mark.parametrize("letters", ["5", 1, 11, True, None])
def test_an_alphabet_that_is_none_is_told(letters: Any) -> None:
    broken = DBE.model_copy(update={"data": {"given": "abab", "letters": letters}})
    assert verify(broken, "<answer>a").outcome is Outcome.FAILED


def test_a_long_word_costs_no_more_than_reading_it() -> None:
    assert verify(DBE, "<answer>" + "dae" * 300_000).score == pytest.approx(0, abs=1e-5)
