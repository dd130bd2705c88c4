"""Samples as people see them: long texts become short, conversations keep their authors."""

from __future__ import annotations

import json

from components.contract.samples import Sample, read_samples, shortened, spread


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "a" * 20 + "b" * 1_000_000 + "c" * 10
    assert shortened(text, 20, 10) == "a" * 20 + "\n[... 1,000,000 characters left out ...]\n" + "c" * 10
    assert shortened("x" * 30, 20, 10) == "x" * 30


def test_lines_that_are_no_samples_are_left_out() -> None:
    good = {"prompt": "p", "response": "r", "data": {"kept": "by others"}}
    bad = ["", "{", "[1]", '{"response": 5}', "[" * 100_000, json.dumps(good)[:-3]]
    assert [sample.response for sample in read_samples([*bad, json.dumps(good)])] == ["r"]


def test_parts_of_operators_in_files_have_their_plain_names() -> None:
    row = {"response": "r", "parts": {f"my_reward.py:brevity@{'0a' * 32}": -1.0, "verifier": None}}
    (sample,) = read_samples([json.dumps(row)])
    assert sample.parts == {"my_reward.py:brevity": -1.0, "verifier": None}


def test_from_worst_to_best() -> None:
    failed, wrong, hacked = Sample(outcome="failed"), Sample(outcome="wrong"), Sample(outcome="wrong", reward=0.9)
    right, praised = Sample(outcome="right"), Sample(outcome="right", reward=2.0)
    assert sorted([right, praised, hacked, wrong, failed], key=lambda sample: sample.badness) == [
        *(failed, wrong, hacked, right, praised)
    ]


def test_a_conversation_keeps_its_authors_and_a_broken_one_its_text() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "2 + 3"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "and 1"},
    ]
    sample = Sample(prompt="as text", messages=messages, turns=["5"], response="6")
    assert sample.pieces() == [
        ("system", "be brief"),
        ("user", "2 + 3"),
        ("policy", "5"),
        ("user", "and 1"),
        ("policy", "6"),
    ]
    assert sample.model_copy(update={"author": "other"}).pieces()[2] == ("other", "5")
    assert Sample(prompt="as text", messages=[{"role": "?"}], response="6").pieces() == [
        ("user", "as text"),
        ("policy", "6"),
    ]


def test_a_spread_has_the_first_and_the_last() -> None:
    assert spread(range(10), 4) == [0, 3, 6, 9]
    assert spread(range(3), 4) == [0, 1, 2]
    assert spread(range(3), 1) == [0]
