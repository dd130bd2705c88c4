"""Trials for queens against values by hand and against all permutations; a demonstrator without its mark."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.tasks.answers import extract_answer
from components.tasks.domains.puzzles import queens
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.tasks.executable.domains import draw, write

ITEM = Item(
    id="q",
    domain="d",
    prompt="think: queens 4 not 12",
    answer="3142",
    verifier="solution_sets",
    data={"solutions": ["3142"], "puzzle": "queens"},
)
OPEN = "think: queens 4 not 11"


def test_trials_by_hand() -> None:
    """Row 1 may have column 1, 3 or 4; 13 and 142 attack all that follows, as 413 and 42 do."""
    assert write({"name": "queens_search"}, ITEM) == "<think>13 no 142 no 3142 413 no 42 no<answer>3142"
    both = ITEM.model_copy(update={"prompt": OPEN, "data": {**ITEM.data, "solutions": ["2413", "3142"]}})
    assert write({"name": "queens_search"}, both) == "<think>2413 3142 413 no 42 no<answer>2413,3142"
    assert write({"name": "queens_search", "stop": 1.0}, both) == "<think>2413<answer>2413"


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), stop=st.sampled_from([0.0, 0.5, 1.0]))
def test_trials_are_in_order_and_find_what_permutations_find(seed: int, stop: float) -> None:
    for item in draw({"name": "solution_sets"}, 3, seed):
        _, size, _, *cells = item.prompt.split()
        blocked = {(int(row), int(column)) for row, column in cells}
        free = [
            "".join(map(str, way))
            for way in permutations(range(1, int(size) + 1))
            if not any((row, column) in blocked for row, column in enumerate(way, 1))
            and all(abs(way[a] - way[b]) != b - a for b in range(len(way)) for a in range(b))
        ]
        text = write({"name": "queens_search", "stop": stop}, item, seed)
        found = extract_answer(text).split(",")
        assert found == free[: len(found)] and (stop > 0 or found == free == queens(int(size), blocked))
        assert verify(item, text).right == (len(found) == len(free))
        steps = text.removeprefix("<think>").partition("<answer>")[0].replace(" no", "").split()
        assert steps == sorted(steps) and set(found) <= set(steps)


def test_other_items_are_refused() -> None:
    (sums,) = draw({"name": "solution_sets", "puzzles": ["sums"]}, 1)
    for item in (sums, ITEM.model_copy(update={"prompt": "queens 9 not 11"}), ITEM.model_copy(update={"data": {}})):
        with pytest.raises(InputError, match="asks for no queens") as refused:
            write({"name": "queens_search"}, item)
        assert "\n" not in str(refused.value)


def test_a_plain_answer_is_the_text_without_the_mark_of_a_thought() -> None:
    tree = {"name": "solution_sets"}
    assert write({"name": "unmarked", "demonstrator": tree}, ITEM) == "1: no 2: no 3:142 4: no<answer>3142"
    for seed, item in enumerate(draw({"name": "solution_sets"}, 10)):
        text = write({"name": "unmarked", "demonstrator": {"name": "solution_sets", "slip": 0.5}}, item, seed)
        assert "<think>" + text == write({"name": "solution_sets", "slip": 0.5}, item, seed)
