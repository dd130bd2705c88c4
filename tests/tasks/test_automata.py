"""Languages of constrained decoding against all their texts, written out."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.domains.worlds.automata import Plans, Trie
from components.tasks.domains.worlds.plans import STEPS, NotExecutable, Type, read_plan

TEXTS = ("true", "truest", "false")


@cache
def plans(wanted: Type, most: int) -> frozenset[str]:
    """All plans of at most so many steps that end in the type wanted, by trying each."""
    found = set()
    for length in range(1, most + 1):
        for names in product(STEPS, repeat=length):
            try:
                if STEPS[read_plan(" ".join(names))[-1]].gives == wanted:
                    found.add(" ".join(names))
            except NotExecutable:
                continue
    return frozenset(found)


def language(automaton: Any, characters: str, most: int) -> set[str]:
    """All texts that an automaton accepts; fails where it has a dead end."""
    found, open_states = set(), {"": automaton.start}
    for _ in range(most):
        following = {}
        for text, state in open_states.items():
            after = {text + one: automaton.step(state, one) for one in characters}
            after = {longer: reached for longer, reached in after.items() if reached is not None}
            assert after or automaton.may_end(state), f"{text!r} is a dead end"
            following |= after
        found |= {text for text, state in following.items() if automaton.may_end(state)}
        open_states = following
    return found


@pytest.mark.parametrize("wanted", get_args(Type))
@pytest.mark.parametrize("most", [1, 2])
def test_the_language_of_plans_is_all_that_execute_and_end_in_the_type_wanted(wanted: Type, most: int) -> None:
    expected = plans(wanted, most)
    letters = "".join(sorted(set("".join(STEPS)))) + " "
    assert language(Plans(wanted, most, "<"), f"{letters}<", 13) == {f"<{plan}" for plan in expected}
    assert all(len(plan) < 13 for plan in expected)


def test_a_trie_is_its_texts() -> None:
    assert language(Trie(TEXTS), "trueslfa", 8) == set(TEXTS)


@given(st.sampled_from(get_args(Type)), st.text("relnvuiq scodtaw", max_size=12))
def test_what_is_read_is_the_beginning_of_a_plan(wanted: Type, text: str) -> None:
    automaton = Plans(wanted, 3)
    state: Any = automaton.start
    for character in text:
        state = automaton.step(state, character) if state is not None else None
    beginning = any(plan.startswith(text) for plan in plans(wanted, 3))
    assert (state is not None) == beginning
    assert state is None or automaton.may_end(state) == (text in plans(wanted, 3))
