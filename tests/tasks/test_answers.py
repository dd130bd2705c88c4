"""Answer extraction, by hand-worked responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.answers import extract_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think>12+3=15<answer>15", "15"),
        ("<answer> 15 </answer> done", "15"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<answer>", ""),
        ("<answer>see \\boxed{7}", "7"),
        ("so \\boxed{\\frac{1}{2}} it is", "\\frac{1}{2}"),
        ("\\boxed{1} then \\boxed{2", "1"),
        ("\\boxed{1} then \\fbox{2}", "2"),
        ("\\boxed{a\\boxed{b}}", "b"),
        ("work\n#### 72\n", "72"),
        ("#### 72\nand a remark", "72"),
        ("<think>\nhm\n</think>\n\n 15 ", "15"),
        ("15", "15"),
        ("  ", ""),
        ("", ""),
        ("<answer>\u00fcber \u2028 x", "\u00fcber \u2028 x"),
    ],
)
def test_marks_are_found_in_their_order(response: str, answer: str) -> None:
    assert extract_answer(response) == answer


@given(st.text(), st.text())
def test_the_last_mark_wins_whatever_stands_before(before: str, answer: str) -> None:
    plain = answer.replace("<answer>", "").replace("</answer>", "")
    assert extract_answer(f"{before}<answer>{plain}") == plain.strip()


def test_many_unclosed_boxes_take_linear_work() -> None:
    text = "\\boxed{" * 20_000
    assert extract_answer(text) == text
