"""Diagnostic judge_bench, on outcomes written by hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.measure.outcomes import ItemOutcomes
from tests.judges.scripted import Scripted, marked
from tests.measure.test_judges import diagnose, value
from tests.measure.test_outcomes import written


def shown(request: str) -> str:
    """Return the response in a request, without its mark."""
    return request.split("<response ")[1].split("\n")[1].removeprefix("<answer>")


def mixed() -> list[ItemOutcomes]:
    """Two prompts: three right and one wrong response, one right and two wrong ones; a failed one counts nowhere."""
    return [written("777x", "rrrw"), written("7xy-", "rwwf")]


def by_text(request: str) -> str:
    verdict = {"7": 10, "x": None, "y": 10, "": 0}[shown(request)]
    return "ten" if verdict is None else marked(verdict)(request)


def test_a_bench_by_hand() -> None:
    """Says yes to 7, cannot be read at x, says yes to y: of right ones all, of wrong ones 0 of 1 and 0 of 2."""
    view = diagnose("judge_bench", mixed(), Scripted(by_text))
    numbers = {name: value(view, name) for name in view.metrics}
    assert numbers == {
        "judge_right_of_right_A": 1.0,
        "judge_right_of_wrong_A": 0.0,
        "judge_pass_at_1_A": 0.5,
        "judge_unparsed_A": pytest.approx((1 / 4 + 1 / 3) / 2),
    }
    assert view.tables[0].rows == [["A", numbers["judge_pass_at_1_A"], *view.tables[0].rows[0][2:]]]


@pytest.mark.parametrize(("says", "expected"), [(marked(10), 0.5), (marked(0), 0.5), (lambda request: "?", 0.0)])
def test_one_verdict_for_all_is_worth_a_half_on_a_bench_and_none_is_worth_nothing(says: Any, expected: float) -> None:
    view = diagnose("judge_bench", mixed(), Scripted(says))
    assert value(view, "judge_pass_at_1_A") == expected
    assert value(view, "judge_unparsed_A") == (expected == 0)


def test_a_bench_of_right_responses_alone_has_their_share() -> None:
    view = diagnose("judge_bench", [written("77", "rr"), written("7-", "rr")], Scripted(by_text))
    assert {name: value(view, name) for name in view.metrics} == {
        "judge_right_of_right_A": 0.75,
        "judge_pass_at_1_A": 0.75,
        "judge_unparsed_A": 0.0,
    }
    assert dict(diagnose("judge_bench", [written("7", "f")], Scripted(by_text)).metrics) == {}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.booleans(), st.sampled_from([None, 0.0, 0.5, 0.6, 1.0])), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_a_bench_is_the_mean_recall_of_both_classes(prompts: list[list[tuple[bool, float | None]]]) -> None:
    """Against scikit-learn: the balanced accuracy of all responses, each weighed so that prompts weigh alike."""
    metrics = pytest.importorskip("sklearn.metrics")
    outcomes, table, truth, said, weights = [], {}, [], [], []
    for at, rows in enumerate(prompts):
        texts = [f"p{at}r{row}" for row in range(len(rows))]
        one = written("x" * len(rows), "".join("r" if right else "w" for right, _ in rows))
        outcomes.append(replace(one, responses=tuple(texts)))
        for text, (right, verdict) in zip(texts, rows, strict=True):
            table[text] = verdict
            truth.append(right)
            said.append(right if verdict is not None and (verdict > 0.5) == right else not right)
            weights.append(1 / sum(other == right for other, _ in rows))

    def says(request: str) -> str:
        verdict = table[shown(request)]
        return "?" if verdict is None else marked(10 * verdict)(request)

    view = diagnose("judge_bench", outcomes, Scripted(says))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a verdict of which there is no response
        expected = metrics.balanced_accuracy_score(truth, said, sample_weight=weights)
    assert value(view, "judge_pass_at_1_A") == pytest.approx(expected)
