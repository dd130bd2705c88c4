"""What another reward would have changed, by hand-worked groups and an independent tau."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from components.rl.rescore.findings import FLIPPED, GAINED, KINDS, LOST, SAME, SILENT, Findings, Group, kendall_tau
from components.rl.rescore.judging import Judged
from components.rl.rescore.page import render_page

NAN = math.nan


def group(then: list[float], now: list[float]) -> Group:
    """A group with rewards less their mean as advantages."""
    centred = [[value - sum(values) / len(values) for value in values] for values in (then, now)]
    return Group(1, "p", [f"text {at}" for at in range(len(then))], then, now, *centred)


@pytest.mark.parametrize(
    ("then", "now", "kind", "flipped"),
    [
        ([1, 0, 0], [0, 1, 0], FLIPPED, [0, 1]),
        ([1, 0, 0], [1, 1, 0], FLIPPED, [1]),  # the second one is above the mean now
        ([1, 0, 0], [9, 1, 1], SAME, []),
        ([1, 1, 1], [1, 0, 1], GAINED, []),
        ([1, 0, 1], [2, 2, 2], LOST, []),
        ([0, 0], [5, 5], SILENT, []),
        ([1], [0], SILENT, []),
    ],
)
def test_what_becomes_of_a_group(then: list[float], now: list[float], kind: str, flipped: list[int]) -> None:
    found = group(then, now)
    assert (found.kind, found.flipped) == (kind, flipped)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_tau_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    mine, other = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found, known = kendall_tau(mine, other), float(stats.kendalltau(mine, other).statistic)
    assert found == pytest.approx(known, nan_ok=True)


def judged(**changes: list[float]) -> Judged:
    """Two groups of three: the first is turned round, the second is equal; the last response has no new reward."""
    columns = {
        "then": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        "now": [0.0, 1.0, 0.0, 1.0, 0.0, NAN],
        "advantage_then": [1.0, -0.5, -0.5, 1.0, -0.5, -0.5],
        "advantage_now": [-0.5, 1.0, -0.5, 0.5, -0.5, NAN],
    }
    texts = ["<script>alert(1)</script>", "b", "c", "d", "e", "f"]
    return Judged(7, ["p"] * 3 + ["q"] * 3, [0, 0, 0, 1, 1, 1], texts, **columns | changes)


def test_the_findings_of_a_step_by_hand() -> None:
    findings = Findings()
    findings.add(judged())
    found = findings.to_json(lambda prompt: f"what is {prompt}?")
    assert found["kinds"] == dict.fromkeys(KINDS, 0) | {FLIPPED: 1, SAME: 1}
    assert (found["num_responses"], found["num_unjudged_then"], found["num_unjudged_now"]) == (6, 0, 1)
    assert (found["num_flipped"], found["num_signs"]) == (2, 5)
    assert (found["num_other_best"], found["num_with_both_signals"]) == (1, 2)
    assert found["then"] == pytest.approx(2 / 5) and found["now"] == pytest.approx(2 / 5)
    # tau-b of (1, 0, 0) and (0, 1, 0): one pair disagrees, each has one tie: -1 / sqrt(2 * 2)
    assert found["tau"]["value"] == pytest.approx((-0.5 + 1.0) / 2)
    then, now = np.array([1, -0.5, -0.5, 1, -0.5]), np.array([-0.5, 1, -0.5, 0.5, -0.5])
    assert found["cosine"] == pytest.approx(then @ now / np.linalg.norm(then) / np.linalg.norm(now))
    (shown,) = found["groups"]
    assert (shown["step"], shown["question"], shown["num_flipped"]) == (7, "what is p?", 2)
    assert [row["text"] for row in shown["responses"]] == ["b", "<script>alert(1)</script>", "c"]
    assert [row["flips"] for row in shown["responses"]] == [True, True, False]


def test_the_page_escapes_what_models_wrote() -> None:
    findings = Findings()
    findings.add(judged())
    told = {"run_id": "r", "stage": "rl", "steps_text": "step 7", "by": "<b>", "before": "v", "advantages": "theirs"}
    page = render_page({**told, **findings.to_json(lambda prompt: "<img src=x>")})
    assert "<script>" not in page and "<img" not in page and "<b>" not in page.replace("<body>", "")
    assert "1 of 2 groups with a signal by both rewards flip" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_without_any_signal_there_is_no_tau_and_the_page_stands() -> None:
    findings = Findings()
    findings.add(judged(then=[1.0] * 6, now=[0.0] * 6, advantage_then=[0.0] * 6, advantage_now=[0.0] * 6))
    found = findings.to_json()
    assert found["tau"] is None and found["cosine"] is None
    assert found["kinds"][SILENT] == 2
    told = {"run_id": "r", "stage": "rl", "steps_text": "step 7", "by": "n", "before": "v", "advantages": "theirs"}
    assert "None." in render_page({**told, **found})
