"""Prioritised sampling: by hand, and its frequencies against those of its weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.rl.step.ledger import PassRates
from tests.rl.build import context, operator, prompt


def ledger_of(rights: list[int | None], tries: int = 10) -> PassRates:
    ledger = PassRates()
    for index, right in enumerate(rights):
        if right is not None:
            ledger.add(f"p{index}", "A", right=right, wrong=tries - right)
    return ledger


def drawn(rights: list[int | None], count: int, *, times: int = 1, **config: float) -> list[int]:
    memory: dict[str, Any] = {}
    pool, ledger = [prompt(index) for index in range(len(rights))], ledger_of(rights)
    sampler = operator("sampler", "priority", **config)
    return [index for _ in range(times) for index in sampler(pool, count, context(memory=memory, ledger=ledger))]


def test_frequencies_are_in_proportion_to_failure() -> None:
    counts = Counter(drawn([10, 8, 5, 0, None], 1, times=4000))
    expected = {1: 0.2, 2: 0.5, 3: 1.0, 4: 1.0}
    assert set(counts) == set(expected), "a solved prompt is not drawn"
    for index, weight in expected.items():
        assert counts[index] / 4000 == pytest.approx(weight / 2.7, abs=0.03)


def test_of_two_drawn_together_the_second_is_drawn_from_the_rest() -> None:
    pairs = drawn([0, 5, 5], 2, times=3000)
    firsts = Counter(pairs[::2])
    assert firsts[0] / 3000 == pytest.approx(0.5, abs=0.03)
    after = Counter(pairs[at + 1] for at in range(0, 6000, 2) if pairs[at] == 1)
    assert after[0] / after.total() == pytest.approx(1 / 1.5, abs=0.05)


def test_unseen_prompts_and_a_floor() -> None:
    assert set(drawn([10, None], 1, times=50, unseen=1.0, floor=0.5)) == {0, 1}
    assert set(drawn([10, None, 0], 1, times=50, unseen=1.0)) == {2}
    now = context(ledger=ledger_of([5, 0]))
    operator("sampler", "priority")([prompt(0), prompt(1)], 2, now)
    assert now.metrics == {"priority_mean": 0.75}


def test_small_weights_are_drawn_alike() -> None:
    counts = Counter(drawn([10] * 40, 8, times=500, floor=1e-4))
    assert max(abs(counts[index] / 4000 - 1 / 40) for index in range(40)) < 0.01


def test_where_all_are_solved_all_are_drawn_alike() -> None:
    assert sorted(drawn([10, 10, 10], 3)) == [0, 1, 2]


def test_a_draw_of_more_than_there_are_begins_anew() -> None:
    assert sorted(Counter(drawn([0, 5, 10], 5)).values()) == [2, 3]


@given(st.lists(st.one_of(st.none(), st.integers(0, 10)), min_size=1, max_size=8), st.integers(1, 12))
def test_no_prompt_repeats_before_all_of_weight_are_drawn(rights: list[int | None], count: int) -> None:
    found = drawn(rights, count)
    assert found == drawn(rights, count), "equal memory, equal draw"
    weighty = [index for index, right in enumerate(rights) if right != 10] or list(range(len(rights)))
    assert len(found) == count and set(found) <= set(weighty)
    counts = Counter(found)
    assert max(counts.values()) - min(counts[index] for index in weighty) <= 1
