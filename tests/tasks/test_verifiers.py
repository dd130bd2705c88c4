"""Every verifier on hand-worked responses: right, wrong, and items that cannot be judged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.runtime.sandbox import NoSandbox, backends
from components.tasks import sandboxed
from components.tasks.item import Item
from components.tasks.numbers import parse_number
from components.tasks.verifiers import math_verify
from components.tasks.verify import Outcome, Verdict, verify, verify_all, wrong


def make_item(verifier: str, answer: str, **data: Any) -> Item:
    return Item(id="x-1", domain="x", prompt="?", answer=answer, verifier=verifier, data=data)


def fresh_sandboxes() -> None:
    """Forget the sandboxes of this process, so that the next call starts one."""
    sandboxed._sandbox.cache_clear()


def outcome(verifier: str, answer: str, response: str, **data: Any) -> str:
    return verify(make_item(verifier, answer, **data), response).outcome.value


@pytest.mark.parametrize(
    ("answer", "response", "data", "expected"),
    [
        ("Paris", "<answer>paris", {}, "right"),
        ("Paris", "<answer>  Paris\n", {}, "right"),
        ("New  York", "new york", {}, "right"),
        ("caf\u00e9", "<answer>cafe\u0301", {}, "right"),
        ("Paris", "Lyon", {}, "wrong"),
        ("Paris", "", {}, "wrong"),
        ("Paris", "Paris.", {}, "wrong"),
        ("Paris", "Paris.", {"settings": {"punctuation": False}}, "right"),
        ("Paris", "paris", {"settings": {"case": True}}, "wrong"),
        ("Eiffel Tower", "the Eiffel Tower", {"settings": {"articles": False}}, "right"),
        ("NYC", "New York", {"aliases": ["New York"]}, "right"),
        ("", "anything", {}, "failed"),
        ("x", "x", {"aliases": "no list"}, "failed"),
        ("x", "x", {"settings": {"cases": True}}, "failed"),
    ],
)
def test_exact(answer: str, response: str, data: dict[str, Any], expected: str) -> None:
    assert outcome("exact", answer, response, **data) == expected


@pytest.mark.parametrize(
    ("answer", "response", "data", "expected"),
    [
        ("15", "<answer>15", {}, "right"),
        ("15", "15.000", {}, "right"),
        ("1000", "$1,000", {}, "right"),
        ("0.75", "3/4", {}, "right"),
        ("3/4", "\\boxed{\\frac{3}{4}}", {}, "right"),
        ("0.5", "50 %", {}, "right"),
        ("-7", "\u22127", {}, "right"),
        ("1500", "1.5e3", {}, "right"),
        ("0.3", "0.1 + 0.2", {}, "wrong"),
        ("15", "16", {}, "wrong"),
        ("15", "fifteen", {}, "wrong"),
        ("15", "", {}, "wrong"),
        ("15", "1/0", {}, "wrong"),
        ("15", "1e999999999", {}, "wrong"),
        ("15", "9" * 5000, {}, "wrong"),
        ("3.14159", "3.14", {}, "wrong"),
        ("3.14159", "3.14", {"settings": {"absolute_tolerance": 0.01}}, "right"),
        ("200", "201", {"settings": {"relative_tolerance": 0.005}}, "right"),
        ("200", "202", {"settings": {"relative_tolerance": 0.005}}, "wrong"),
        ("about ten", "10", {}, "failed"),
        ("15", "15", {"settings": {"relative_tolerance": -1}}, "failed"),
    ],
)
def test_numeric(answer: str, response: str, data: dict[str, Any], expected: str) -> None:
    assert outcome("numeric", answer, response, **data) == expected


@given(st.fractions(max_denominator=10**6))
def test_numbers_survive_writing(value: Fraction) -> None:
    assert parse_number(str(value)) == value


@given(st.text(max_size=40))
def test_no_text_makes_the_number_parser_raise(text: str) -> None:
    parse_number(text)


@pytest.mark.parametrize(
    ("answer", "response", "data", "expected"),
    [
        ("C", "<answer>C", {}, "right"),
        ("(c)", "The answer is (C).", {}, "right"),
        ("C", "C. Paris", {}, "right"),
        ("C", "D", {}, "wrong"),
        ("C", "Paris", {"options": ["Rome", "Bonn", "Paris"]}, "right"),
        ("A", "a dog", {"options": ["cat", "dog"]}, "wrong"),
        ("A", "D", {"options": ["cat", "dog"]}, "wrong"),
        ("A", "", {}, "wrong"),
        ("D", "D", {"options": ["cat", "dog"]}, "failed"),
        ("cat", "A", {"options": ["cat", "dog"]}, "failed"),
    ],
)
def test_choice(answer: str, response: str, data: dict[str, Any], expected: str) -> None:
    assert outcome("choice", answer, response, **data) == expected


@pytest.mark.parametrize(
    ("pattern", "response", "expected"),
    [
        (r"\d{4}-\d{2}", "<answer>2024-05", "right"),
        (r"\d{4}-\d{2}", "2024-05-01", "wrong"),
        (r"(unclosed", "x", "failed"),
        (None, "x", "failed"),
    ],
)
def test_regex(pattern: str | None, response: str, expected: str) -> None:
    data = {} if pattern is None else {"pattern": pattern}
    assert outcome("regex", "x", response, **data) == expected


@pytest.mark.parametrize(("reference", "expected"), [("aab", "wrong"), ("a" * 60, "failed")])
def test_a_pattern_that_never_ends_is_the_answers_doing_unless_the_reference_fares_alike(
    reference: str, expected: str
) -> None:
    data = {"pattern": r"(a+)+b", "settings": {"timeout_seconds": 0.3}}
    verdict = verify(make_item("regex", reference, **data), "a" * 50)
    assert verdict.outcome.value == expected
    assert "out of time" in verdict.detail
    assert outcome("regex", "x", "aab", pattern=r"(a+)+b") == "right"


def test_what_ends_badly_beside_others_changes_none_of_their_verdicts() -> None:
    """They are put to the sandbox together; the slow one takes its deadline, and only its own."""
    slow = make_item("regex", "aab", pattern=r"(a+)+b", settings={"timeout_seconds": 0.3})
    broken = make_item("regex", "x", pattern="(", settings={"timeout_seconds": 0.3})
    pairs = [(slow, "aab"), (slow, "a" * 50), (broken, "x"), (slow, "b"), (slow, "ab")]
    assert [verdict.outcome.value for verdict in verify_all(pairs)] == ["right", "wrong", "failed", "wrong", "right"]


@pytest.mark.parametrize(
    ("answer", "response", "data", "expected"),
    [
        ("2(x+1)", "<answer>2x + 2", {}, "right"),
        ("\\frac{1}{2}", "\\boxed{0.5}", {}, "right"),
        ("2\\sqrt{2}", "$\\sqrt{8}$", {}, "right"),
        ("\\sin^2 x + \\cos^2 x", "1", {}, "right"),
        ("18", "#### 18", {}, "right"),
        ("1,000", "1000", {}, "right"),
        ("50\\%", "1/2", {}, "right"),
        ("\\{1, 2\\}", "2, 1", {}, "right"),
        ("(1, 2)", "(1,2)", {}, "right"),
        ("\\text{Evelyn}", "\\text{Evelyn}", {}, "right"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}", {}, "right"),
        ("x^2", "x^3", {}, "wrong"),
        ("(1, 2)", "(2, 1)", {}, "wrong"),
        ("[0, 1)", "[0, 1]", {}, "wrong"),
        ("x", "x +", {}, "wrong"),
        ("1", "", {}, "wrong"),
        ("1", "1/0", {}, "wrong"),
        ("1", "{" * 2000, {}, "wrong"),
        ("1", "__import__('os').getpid()", {}, "wrong"),
        ("1", "(1).__class__", {}, "wrong"),
        ("3.14159", "3.1416", {}, "wrong"),
        ("3.14159", "3.1416", {"settings": {"decimals": 3}}, "right"),
        ("", "1", {}, "failed"),
    ],
)
def test_math_verify(answer: str, response: str, data: dict[str, Any], expected: str) -> None:
    assert outcome("math_verify", answer, response, **data) == expected


@given(st.fractions(max_denominator=10**4), st.fractions(max_denominator=10**4))
@settings(max_examples=60)
def test_math_verify_and_numeric_agree_on_fractions(left: Fraction, right: Fraction) -> None:
    assert outcome("math_verify", str(left), str(right)) == outcome("numeric", str(left), str(right))


def test_a_power_that_never_ends_is_the_answers_doing_and_the_next_call_works() -> None:
    verdict = verify(make_item("math_verify", "1", settings={"timeout_seconds": 1.0}), "9^{9^{9^{9}}}")
    assert verdict.outcome is Outcome.WRONG
    assert "out of time" in verdict.detail or "memory" in verdict.detail
    assert outcome("math_verify", "1", "\\frac{2}{2}") == "right"


def test_an_unknown_verifier_is_failed_with_the_near_miss() -> None:
    verdict = verify(make_item("numerik", "1"), "1")
    assert verdict.outcome is Outcome.FAILED
    assert "did you mean 'numeric'" in verdict.detail


def test_the_import_of_a_library_counts_against_no_deadline() -> None:
    """math-verify and sympy take seconds to import; a comparison of two roots does not."""
    fresh_sandboxes()
    assert outcome("math_verify", "2\\sqrt{2}", "\\sqrt{8}", settings={"timeout_seconds": 0.4}) == "right"


def test_no_verdict_depends_on_what_was_judged_before_it() -> None:
    """A worker that stays could be left changed, or with a reply that belongs to the verdict before."""
    good, bad = make_item("math_verify", "x/2"), make_item("math_verify", "x/3")
    stalled = make_item("math_verify", "2", settings={"timeout_seconds": 0.3})
    for _ in range(3):
        assert verify(stalled, "9^{9^{9^{9}}}").outcome is Outcome.WRONG
        assert verify(good, "0.5x").right
        assert not verify(bad, "0.5x").right


def test_where_there_is_no_sandbox_the_stage_stops_and_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise NoSandbox("install Debian's bubblewrap")

    monkeypatch.setattr(backends, "usable_backend", refuse)
    with pytest.raises(NoSandbox, match="bubblewrap"):
        verify_all([(make_item("exact", "x"), "x"), (make_item("regex", "x", pattern="x"), "x")])
    assert verify(make_item("exact", "x"), "x").right


def test_a_sandbox_that_breaks_is_failed_and_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_verify, "PRELOAD", "components.tasks.scoring.not_there")
    verdict = verify(make_item("math_verify", "x/2"), "0.5x")
    assert verdict.outcome is Outcome.FAILED
    assert "not_there" in verdict.detail


@pytest.mark.parametrize(("grade", "score"), [(None, 0.0), (0.25, 0.25)])
def test_a_verdict_has_its_outcome_for_a_score_unless_it_is_graded(grade: float | None, score: float) -> None:
    assert wrong("no", graded=grade).score == score
    assert Verdict(Outcome.RIGHT).score == 1.0
    assert Verdict(Outcome.FAILED, "x", 0.5).score == 0.0


@pytest.mark.parametrize("grade", [-0.1, 1.1, float("nan")])
def test_a_grade_beyond_its_range_is_refused(grade: float) -> None:
    with pytest.raises(ValueError, match="grade"):
        wrong("no", graded=grade)
