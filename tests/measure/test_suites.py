"""Suites of tests: formulas by hand and by brute force, the diagnostic by hand, and how tests are chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.measure.formulas.suites import accurate, area, detected, effective_number, patterns
from components.measure.outcomes import ItemOutcomes
from components.tasks.domains.stack import run
from components.tasks.item import Item
from components.tasks.sources.suites import differential
from components.tasks.verify import verify
from tests.measure.test_diagnostics import diagnose, value
from tests.tasks.executable.domains import draw

FAULTY = {"name": "programs", "error_rate": 0.4, "think": False}


def test_formulas_by_hand() -> None:
    kills = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]], dtype=bool)
    assert detected(kills).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    assert accurate(kills).tolist() == [0, 0, 0, 1]
    assert area(accurate(kills)) == pytest.approx(1 / 6)  # trapezoids 0, 0, 1/2 over 3
    assert patterns(kills) == 2  # the first two tests fail the same programs, the third none
    assert area(np.array([0.5])) == 0.5 and effective_number(10, 0.0) == 10 and effective_number(10, 1.0) == 1


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**30 - 1))
def test_formulas_agree_with_counting(wrong: int, tests: int, bits: int) -> None:
    table = [[bool(bits >> (row * tests + column) & 1) for column in range(tests)] for row in range(wrong)]
    kills = np.array(table)
    for k in range(1, tests + 1):
        failed = [any(row[:k]) for row in table]
        assert detected(kills)[k - 1] == pytest.approx(sum(failed) / wrong)
        assert accurate(kills)[k - 1] == all(failed)
    columns = {column for column in zip(*table, strict=True) if any(column)}
    assert patterns(kills) == len(columns)
    assert area(np.ones(tests)) == 1


def test_differential_tests_come_first() -> None:
    # the second test fails two mistakes, the first the one that is left; the third adds nothing
    assert differential("abc", [{0}, {1, 2}, {1}]) == ["b", "a", "c"]
    assert differential("abc", [set(), set(), {0}]) == ["c", "a", "b"]


@pytest.mark.parametrize("choice", ["random", "differential"])
def test_a_suite_is_of_the_tasks_own_tests_and_the_pool_is_wrong(choice: str) -> None:
    spec = {"name": "suites", "source": {"name": "programs", "min_operations": 3}, "faulty": FAULTY, "choice": choice}
    for item in draw({**spec, "size": 2, "mistakes": 4, "pool": 5}, 12):
        tests, truth, wrong = (item.data[key] for key in ("tests", "truth", "wrong"))
        assert len(tests) == 2 and all(test in truth for test in tests) and len(truth) > 10
        assert len(wrong) == len(set(wrong)) == 5 and verify(item, f"<answer>{item.answer}").right
        assert all(any(run(text, tuple(given)) != output for given, output in truth) for text in wrong)


def test_rows_of_another_verifier_are_refused() -> None:
    spec = {"name": "suites", "source": {"name": "circuits"}, "faulty": {"name": "circuits"}}
    with pytest.raises(InputError, match="say `verifier: circuits`"):
        draw(spec, 1)


def suite(tests: list[list[object]], wrong: list[str], name: str = "a") -> ItemOutcomes:
    item = Item(id=name, domain="A", prompt="p", answer="+", verifier="programs", data={"tests": tests, "wrong": wrong})
    return ItemOutcomes(item, ("<answer>+",), (verify(item, "<answer>+"),), (1,), (0.0,), (0.0,), (True,))


def test_the_diagnostic_by_hand() -> None:
    # 2 + 2 does not tell + from *, 1 + 2 does; 0 + 0 tells neither of them from m
    weak, strong = [[[2, 2], 4], [[0, 0], 0]], [[[1, 2], 3], [[0, 0], 0]]
    view = diagnose("test_suite", [suite(weak, ["*", "m"]), suite(strong, ["*", "m"], "b")])
    # weak: m fails (2), * does not: 1 of 2; strong: both fail at the first test
    assert value(view, "suite_dr_A") == pytest.approx((0.5 + 1) / 2)
    assert value(view, "suite_vacc_A") == 0.5 and value(view, "suite_auc_A") == 0.5
    assert value(view, "suite_depc_A") == pytest.approx(0.5)  # one pattern of two tests each
    with pytest.raises(InputError, match="no item holds"):
        diagnose("test_suite", [suite(weak, [])])


def test_differential_suites_detect_more_of_unseen_mistakes_than_random_ones() -> None:
    found = {}
    for choice in ("random", "differential"):
        spec = {"name": "suites", "source": {"name": "programs", "min_operations": 3}, "faulty": FAULTY}
        items = draw({**spec, "choice": choice, "size": 1, "mistakes": 8, "pool": 6}, 60)
        outcomes = [suite(item.data["tests"], item.data["wrong"], item.id) for item in items]
        found[choice] = value(diagnose("test_suite", outcomes), "suite_dr_A")
    assert found["differential"] > found["random"] + 0.02
