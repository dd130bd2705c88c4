"""Rows of roles by hand: attempts to be criticised, and prompts that ask for a revision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.contract.operators import OperatorRefused, OperatorSpec
from components.runtime.closure.rows import named_verifiers
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from components.tasks.item import Item
from components.tasks.revised import task_of
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("s", "1+2", "3", k=7)
ASKS = "{prompt} {response}"
SAYS = ["3", "4", "3", "4 is {prompt}", "...", None, "5"]


def made(name: str, writers: object, items: list[Item], **config: object) -> list[Made | Dropped]:
    bound = OperatorSpec.model_validate({"name": name, **config}).resolve(GENERATOR)
    return list(bound(items, writers, CONTEXT))


class TestAttempts:
    def test_each_response_is_asked_about_with_the_task_beside_it(self) -> None:
        writers = scripted(lambda item, number: SAYS[number])
        found = made(
            "attempts",
            writers,
            [SUM],
            num_samples=7,
            max_per_prompt=3,
            question="{prompt} {response}?",
            words=["y", "n"],
        )
        rows = [row for row in found if isinstance(row, Made)]
        assert [(row.item.prompt, row.item.answer, row.item.verifier) for row in rows] == [
            ("1+2 3?", "y", "exact"),
            ("1+2 4?", "n", "exact"),
            ("1+2 4 is {prompt}?", "n", "exact"),
        ]
        assert [task_of(row.item, "x") for row in rows] == [(SUM, "3"), (SUM, "4"), (SUM, "4 is {prompt}")]
        assert [row.reason for row in found if isinstance(row, Dropped)] == [
            "repeated",
            "unfinished",
            "refused",
            "over_cap",
        ]

    def test_the_verifier_of_the_task_counts_among_those_of_the_rows(self, tmp_path: Path) -> None:
        (row,) = made("attempts", scripted(lambda item, number: "3"), [SUM], num_samples=1)
        (tmp_path / "rows.jsonl").write_text(json.dumps(row.item.row()) + "\n")
        assert named_verifiers(tmp_path) == ["exact", "numeric"]

    def test_a_verifier_in_the_settings_of_the_task_counts_too(self, tmp_path: Path) -> None:
        (row,) = made("attempts", scripted(lambda item, number: "3"), [SUM], num_samples=1)
        task = row.item.data["task"] | {"data": {"settings": {"parts": [{"name": "choice"}]}}}
        (tmp_path / "rows.jsonl").write_text(json.dumps(row.item.row() | {"data": {"task": task}}) + "\n")
        assert named_verifiers(tmp_path) == ["choice", "exact", "numeric"]

    def test_control_marks_of_a_response_are_broken_in_the_question_alone(self) -> None:
        (row,) = made("attempts", scripted(lambda item, number: "3<|eos|>"), [SUM], num_samples=1, question=ASKS)
        assert row.item.prompt == "1+2 3< |eos|>" and task_of(row.item, "x") == (SUM, "3<|eos|>")

    def test_equal_words_are_refused(self) -> None:
        with pytest.raises(OperatorRefused, match="two different texts"):
            made("attempts", None, [], words=["right", "Right "])

    def test_a_question_without_the_response_is_refused(self) -> None:
        with pytest.raises(OperatorRefused, match=r"lacks \{response\}"):
            made("attempts", None, [], question="{prompt}?")
        with pytest.raises(OperatorRefused, match=r"nothing fills \{critique\}"):
            made("attempts", None, [], question="{prompt} {response} {critique}")


class TestRevisions:
    def test_each_critique_of_each_response_asks_for_the_task_again(self) -> None:
        judge = {"1+2 3?": "good", "1+2 4?": None}
        writers = scripted(lambda item, number: SAYS[number], lambda item, number: judge[item.prompt])
        found = made(
            "revisions",
            writers,
            [SUM],
            num_samples=3,
            critique="{prompt} {response}?",
            question="{prompt}|{response}|{critique}",
        )
        (row,) = [row for row in found if isinstance(row, Made)]
        assert (row.item.prompt, row.item.answer, row.item.verifier) == ("1+2|3|good", "3", "numeric")
        assert row.item.data == {"k": 7, "response": "3", "critique": "good"} and row.item.id != SUM.id
        assert [row.reason for row in found if isinstance(row, Dropped)] == ["refused"]

    def test_control_marks_are_broken_for_critics_and_in_rows(self) -> None:
        writers = scripted(lambda item, number: "4<|eos|>", lambda item, number: f"{item.prompt}[INST]")
        (row,) = made("revisions", writers, [SUM], num_samples=1, critique=ASKS, question="{response}|{critique}")
        assert row.item.prompt == "4< |eos|>|1+2 4< |eos|>[ INST]"
        assert row.item.data["response"] == "4<|eos|>" and row.item.data["critique"] == "1+2 4< |eos|>[INST]"

    def test_critics_read_the_response_as_data(self) -> None:
        writers = scripted(lambda item, number: "4", lambda item, number: f"of {item.data['response']}: {item.answer}")
        (row,) = made("revisions", writers, [SUM], num_samples=1)
        assert row.item.data["critique"] == "of 4: 3"

    def test_a_question_without_the_critique_is_refused(self) -> None:
        with pytest.raises(OperatorRefused, match=r"lacks \{critique\}"):
            made("revisions", None, [], question="{prompt} {response}")
        with pytest.raises(OperatorRefused, match=r"critique: the question lacks \{response\}"):
            made("revisions", None, [], critique="{prompt}")
