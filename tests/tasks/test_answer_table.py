"""Answers as models write them, with the verdict that a person gives: one table for numbers, letters and formulas."""

from __future__ import annotations

import json
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.numbers import parse_number
from components.tasks.programs.extract import extract_program
from components.tasks.verifiers.choice import chosen_option
from components.tasks.verify import verify, verify_all

TABLE = Path(__file__).parent / "data" / "answers.jsonl"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in TABLE.read_text().splitlines()]


def test_every_verdict_of_the_table_is_what_a_person_says() -> None:
    pairs = []
    for number, row in enumerate(rows()):
        item = Item(id=f"a-{number}", domain="a", prompt="?", answer=row["answer"], verifier=row["verifier"])
        pairs.append((item, row["response"]))
    verdicts = verify_all(pairs)
    assert not [verdict.detail for verdict in verdicts if verdict.failed]
    missed = [
        f"{row['verifier']}: {row['response']!r} for {row['answer']!r} is {verdict.outcome.value} ({verdict.detail})"
        for row, verdict in zip(rows(), verdicts, strict=True)
        if verdict.right is not row["right"]
    ]
    assert not missed, "\n".join(missed)


def test_the_table_holds_enough_of_every_kind() -> None:
    counts = Counter((row["verifier"], row["right"]) for row in rows())
    assert len(rows()) > 350 and min(counts.values()) > 15 and len(counts) == 6


DIGITS = st.integers(0, 10**9)


@given(DIGITS, DIGITS, st.sampled_from([" ", ", ", "; ", " or ", " and ", "\n", " \\text{ or } ", "|"]))
def test_two_numbers_side_by_side_are_never_one(left: int, right: int, between: str) -> None:
    assume(not (between == " " and left and left < 1000 and len(str(right)) == 3))  # 7 800 is a form of 7800
    assert parse_number(f"{left}{between}{right}") is None


def forms(whole: int, top: int, bottom: int) -> list[str]:
    return [
        f"{whole} {top}/{bottom}",
        f"{whole}\\frac{{{top}}}{{{bottom}}}",
        f"{whole} \\dfrac{{{top}}}{{{bottom}}}",
        f"$\\frac{{{whole * bottom + top}}}{{{bottom}}}$",
        f"**{whole * bottom + top}/{bottom}**.",
        f"x = {whole} and {top}/{bottom}",
    ]


@given(st.integers(1, 10**6), st.integers(1, 99), st.integers(2, 100), st.booleans())
def test_a_number_is_the_same_in_every_form(whole: int, top: int, bottom: int, negative: bool) -> None:
    top = top % bottom or 1
    value = Fraction(whole) + Fraction(top, bottom)
    assert {parse_number(text) for text in forms(whole, top, bottom)} == {value}
    grouped = [f"{whole:,}".replace(",", mark) for mark in (",", "{,}", "\\,", " ")]
    marks = ["{}", "\\${}", "{} apples", "\\text{{{}}}", "{}^\\circ", "The answer is {}.", "{}.00"]
    sign = "-" if negative else ""
    read = {parse_number(mark.format(sign + text)) for text in grouped for mark in marks}
    assert read == {Fraction(-whole if negative else whole)}


@given(st.text(), st.sampled_from(["\\boxed{7}", "#### 7", "7", "The answer is 7", "\\boxed{7}\n"]))
def test_what_stands_in_an_unclosed_thought_is_no_answer(before: str, thought: str) -> None:
    plain = before.replace("<", "").replace("[", "")
    assert extract_answer(f"{plain}<think>{thought}") == ""
    assert extract_answer(f"<think>{plain}{thought}</think> ") == ""
    assert extract_answer(f"{plain}{thought}</think>8") == "8", "the template opened it"


@pytest.mark.parametrize(
    "text", ["`" * 9000, "```" + "a" * 9000, "answer" + " " * 9000, "\\boxed{" * 9000 + "}" * 9000, "</think>" * 9000]
)
def test_hostile_texts_take_little_time(text: str) -> None:
    begun = time.process_time()
    extract_answer(text, "last_number")
    extract_program(text, ("python",), "f")
    chosen_option(text, ["a", "b"])
    parse_number(text[:200])
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("unmarked", "answer"), [("all", "3 and 4\nmake 7 apples"), ("last_line", "make 7 apples"), ("last_number", "7")]
)
def test_a_verifier_says_how_it_reads_a_response_without_a_mark(unmarked: Any, answer: str) -> None:
    response = "<think>9</think>3 and 4\nmake 7 apples"
    assert extract_answer(response, unmarked) == answer
    data = {"settings": {"unmarked": unmarked}}
    item = Item(id="a", domain="a", prompt="?", answer="7", verifier="numeric", data=data)
    assert verify(item, response).right is (unmarked == "last_number")
