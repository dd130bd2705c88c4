"""Sums varied by hand and against plain arithmetic; solutions as prompts and problems as answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.sources.problem_writing import writing_prompt
from components.tasks.verify import verify

WORDS = "What is {} ?"


def asked(expression: str) -> Item:
    data = {"metadata": {"expression": expression}}
    return Item(id="A-1", domain="A", prompt=WORDS.format(expression), answer="0", verifier="numeric", data=data)


def vary(expression: str, seed: int = 0, **config: Any) -> str:
    spec = OperatorSpec.model_validate({"name": "sum_variant", **config})
    before, after = WORDS.split("{}")
    return str(spec.resolve("demonstrator")(asked(expression), random.Random(seed)))[len(before) : -len(after)]


def test_two_terms_change_places_and_a_positive_one_comes_first() -> None:
    assert {vary("4 + 7", seed) for seed in range(20)} == {"7 + 4"}
    assert {vary("4 - 9 + 2", seed) for seed in range(60)} == {"4 + 2 - 9", "2 + 4 - 9", "2 - 9 + 4"}


def test_where_no_order_differs_a_term_is_split() -> None:
    assert {vary("2 + 2", seed) for seed in range(40)} == {"1 + 1 + 2", "2 + 1 + 1"}
    assert {vary("3 - 1", seed) for seed in range(80)} <= {"1 + 2 - 1", "2 + 1 - 1", "3 - 1 + 0", "3 - 1 - 0"}


@settings(deadline=None, max_examples=200)
@given(
    first=st.integers(0, 9),
    changes=st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 9)), min_size=1, max_size=5),
    split=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_total_stays_the_text_differs_and_an_error_is_of_one(
    first: int, changes: list[tuple[str, int]], split: bool, seed: int
) -> None:
    expression = " ".join([str(first), *(f"{sign} {number}" for sign, number in changes)])
    total = eval(expression)
    varied = vary(expression, seed, split_rate=float(split))
    assert varied != expression and eval(varied) == total
    assert abs(eval(vary(expression, seed, split_rate=float(split), error_rate=1.0)) - total) == 1


def rows(**config: Any) -> list[SourceRow]:
    inner = {"name": "reasoning_gym", "task": "chain_sum", "config": {"min_digits": 1, "max_digits": 1}}
    spec = {"name": "problem_writing", "source": inner, "expert": "chain_sum_trace", "writer": "sum_variant", **config}
    request = SourceRequest(seed=3, limit=12, scratch=Path("unused"))
    found = OperatorSpec.model_validate(spec).resolve("source")(request)
    assert found.origin["source"] == "problem_writing" and found.origin["writer"] == "sum_variant"
    return [row for row in found.rows if isinstance(row, SourceRow)]


def test_a_row_asks_for_a_problem_with_the_solutions_answer() -> None:
    for row in rows(template="{solution}|write"):
        solution, _, rest = row.prompt.partition("|")
        problem = row.answer.split(":")[1].removesuffix("=").strip()
        assert rest == "write" and eval(problem) == int(solution.partition("<answer>")[2])
        assert verify(row.item("w"), row.answer).right and not verify(row.item("w"), row.answer + "1").right
    assert [row.prompt for row in rows()] == [row.prompt for row in rows()]


def test_what_a_solution_holds_is_not_read_as_a_template() -> None:
    assert writing_prompt("a {solution} b", "{solution} {prompt}") == "a {solution} {prompt} b"


def test_bad_settings_are_refused_in_a_line() -> None:
    with pytest.raises(OperatorRefused, match=r"needs \{solution\} once"):
        rows(template="write")
    with pytest.raises(OperatorRefused, match="without end is needed"):
        rows(source={"name": "artifact"})
    with pytest.raises(InputError, match="is no chain_sum"):
        vary("rev abc")
