"""Broken forms of a response: by hand, and against a check of form that is written another way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.answers import extract_answer
from components.tasks.blocks import Grammar
from components.tasks.broken_forms import FORMS, broken_forms, parts_of

CLOSED, OPEN = Grammar(), Grammar(closing=False)
TEXT = "<think>4+7=11</think><answer>11</answer>"


def test_every_form_of_a_closed_text() -> None:
    assert broken_forms(TEXT, CLOSED) == {
        "no_thought": "<answer>11</answer>",
        "unmarked_first": "4+7=11\n<answer>11</answer>",
        "unmarked_last": "<think>4+7=11</think>\n11",
        "swapped": "<answer>11</answer><think>4+7=11</think>",
        "repeated": "<think>4+7=11</think><answer>11</answer><answer>11</answer>",
        "rewrapped": "<think>4+7=11</think>\n#### 11",
        "unclosed": "<think>4+7=11<answer>11",
    }


def test_every_form_of_an_open_text_in_their_order() -> None:
    found = broken_forms("<think>4+7=11<answer>11", OPEN)
    assert found == {
        "no_thought": "<answer>11",
        "unmarked_first": "4+7=11\n<answer>11",
        "unmarked_last": "<think>4+7=11\n11",
        "swapped": "<answer>11<think>4+7=11",
        "repeated": "<think>4+7=11<answer>11<answer>11",
        "rewrapped": "<think>4+7=11\n#### 11",
    }
    assert list(found) == [form for form in FORMS if form in found]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "11",
        "<answer>11</answer>",
        "<answer>11</answer><think>a</think>",
        "<think> </think><answer>11</answer>",
        "so: <think>a</think><answer>11</answer>",
        "<think>a</think><answer>11</answer> done",
        "<think>a</think><answer>11</answer><answer>11</answer>",
        "<think>a <answer>1</answer></think><answer>11</answer>",
        "<think>a</answer></think><answer>11</answer>",
        "<think>a</think></think><answer>11</answer>",
    ],
)
def test_a_text_that_is_not_well_formed_has_no_forms(text: str) -> None:
    assert parts_of(text, CLOSED) is None
    assert broken_forms(text, CLOSED) == {}


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", "7", " ", "\n", "é"]), max_size=9
)
WELL_FORMED = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)


def well_formed(text: str) -> bool:
    """Say it by one regular expression and counts, without blocks."""
    found = WELL_FORMED.fullmatch(text)
    marks = [text.count(mark) for mark in ("<think>", "</think>", "<answer>", "</answer>")]
    return found is not None and marks == [1, 1, 1, 1] and all(part.strip() for part in found.groups())


@given(PIECES)
def test_well_formed_is_what_a_regular_expression_says(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert (parts_of(text, CLOSED) is not None) == well_formed(text)


WORDS = st.text("ab 7+=", min_size=1, max_size=8).filter(str.strip)


@given(WORDS, WORDS)
def test_forms_break_the_form_and_keep_the_content(thought: str, answer: str) -> None:
    text = f"<think>{thought}</think><answer>{answer}</answer>"
    found = broken_forms(text, CLOSED)
    assert found.keys() == set(FORMS)
    for form, broken in found.items():
        assert not well_formed(broken)
        assert answer.strip() in broken
        assert form == "no_thought" or thought.strip() in broken
    for form in ("no_thought", "unmarked_first", "swapped", "repeated", "rewrapped", "unclosed"):
        assert extract_answer(found[form]) == extract_answer(text), "a verifier reads the same answer"


def test_one_tag_has_no_thought_to_leave_out() -> None:
    assert list(broken_forms("<answer>11</answer>", Grammar(tags=("answer",)))) == [
        "unmarked_last",
        "repeated",
        "rewrapped",
        "unclosed",
    ]
