"""Pairs as questions with two options: by hand, and what shuffled labels and places come to over many."""

from __future__ import annotations

import random
from typing import Any

import pytest

from components.contract.operators import OperatorRefused, OperatorSpec
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from components.tasks.demonstrators.choice import ChoiceDemonstratorConfig, choice
from components.tasks.verify import verify
from tests.synthesize.scripted import CONTEXT, item, scripted

TEXTS = ["<think>1+2=3<answer>3", "<answer>4", "<answer>3", None, "...", "<answer>5", "<think>1+2=4<answer>4"]
SUMS = [item(f"s{number}", f"{number}+1", str(number + 1), k=number) for number in range(400)]


def made(items: list[Any], texts: list[str | None] | None = None, **config: Any) -> tuple[list[Made], list[str]]:
    bound = OperatorSpec.model_validate({"name": "pair_to_choice", "num_samples": 2, **config}).resolve(GENERATOR)

    def say(one: Any, number: int) -> str | None:
        return texts[number] if texts else f"<answer>{int(one.answer) + number}"

    rows = list(bound(items, scripted(say), CONTEXT))
    return [row for row in rows if isinstance(row, Made)], [row.reason for row in rows if isinstance(row, Dropped)]


def test_right_and_wrong_are_paired_and_shown_as_asked() -> None:
    one = item("s", "1+2", "3", k=7)
    rows, dropped = made([one], TEXTS, num_samples=7, shows="answer", max_per_prompt=None)
    (row,) = rows  # answers 3 against 4: both right responses show the same
    better = "AB".index(row.item.answer)
    assert row.item.data["options"][better] == "3" and row.item.data["options"][1 - better] == "4"
    assert row.item.prompt == "1+2 A:{} B:{}".format(*row.item.data["options"])
    assert row.item.verifier == "choice" and row.item.data["question"] == "1+2" and row.item.data["k"] == 7
    assert dropped == ["refused", "unfinished"]
    rows, dropped = made([one], TEXTS, num_samples=7, max_per_prompt=1, orders="both")
    assert [row.item.answer for row in rows] == ["A", "B"] and dropped[-1] == "over_cap"
    assert rows[0].item.data["options"] == rows[1].item.data["options"][::-1] == [TEXTS[0], "<answer>4"]


def test_what_belongs_to_the_task_alone_is_left_out_and_control_marks_are_broken() -> None:
    one = item("s", "1+2", "3", k=7, settings={"absolute_tolerance": 0.1}, right_responses=["<answer>3"])
    (row,), _ = made([one], ["<|eos|><answer>3", "<answer>4"])
    assert set(row.item.data) == {"k", "options", "question"}
    assert "< |eos|><answer>3" in row.item.prompt and "<|eos|><answer>3" in row.item.data["options"]


def test_equal_verdicts_are_no_pair() -> None:
    assert made([SUMS[0]], ["<answer>1", "<answer>1"]) == ([], ["no_contrast"])


def test_places_are_even_and_shuffled_labels_say_nothing() -> None:
    for labels, low, high in (("gold", 1.0, 1.0), ("shuffled", 0.4, 0.6)):
        rows, _ = made(SUMS, shows="answer", labels=labels)
        assert len(rows) == 400 and 0.4 < sum(row.item.answer == "A" for row in rows) / 400 < 0.6
        true = [row.item.data["options"]["AB".index(row.item.answer)] for row in rows]
        share = sum(text == str(row.item.data["k"] + 1) for text, row in zip(true, rows, strict=True)) / 400
        assert low <= share <= high


def test_the_demonstrator_of_choices_works_them_out() -> None:
    rows, _ = made(SUMS[:20], shows="answer")
    for row in rows:
        text = choice(row.item, random.Random(0), config=ChoiceDemonstratorConfig())
        assert verify(row.item, text).right


def test_a_question_without_an_option_is_refused() -> None:
    with pytest.raises(OperatorRefused, match=r"lacks \{b\}"):
        made([], question="{prompt} {a}")
