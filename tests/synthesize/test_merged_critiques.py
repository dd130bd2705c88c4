"""Merged critiques and their pairs by hand, with three scripted critics."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from components.synthesize.writers import Writers
from tests.synthesize.scripted import CONTEXT, Scripted, item
from tests.tasks.test_sum_revision import sum_item

SUM = item("s", "1+2", "3")
SAID = {
    "x": ("<answer>1 a, 2 b", "<answer>2 b", "<answer>3 c, 2 b, 1 a"),
    "y": ("<answer>none", "<answer>1 a", "<answer>"),
    "z": (None, "cut...", " "),
}
ASKED = {"question": "{prompt} {response}?"}


def writers(responses: list[str | None], said: dict[str, tuple[str | None, ...]] = SAID) -> Writers:
    critics = [Scripted(lambda one, _, at=at: said[one.data["response"]][at], f"c{at}") for at in range(3)]
    return Writers(teachers=[Scripted(lambda one, number: responses[number])], judges=critics)


def made(name: str, found: Writers, items: list[Any] | None = None, **config: Any) -> tuple[list[Made], list[str]]:
    bound = OperatorSpec.model_validate({"name": name, **ASKED, **config}).resolve(GENERATOR)
    rows = list(bound(items or [SUM], found, CONTEXT))
    return [row for row in rows if isinstance(row, Made)], [row.reason for row in rows if isinstance(row, Dropped)]


class TestMerged:
    @pytest.mark.parametrize(
        ("votes", "answers", "few"),
        [(1, ["1 a, 2 b, 3 c", "1 a"], 1), (2, ["1 a, 2 b", "none"], 1), (3, ["2 b"], 2)],
    )
    def test_units_need_votes(self, votes: int, answers: list[str], few: int) -> None:
        rows, dropped = made("merged_critiques", writers(["x", "x", "y", "z"]), num_samples=4, min_votes=votes)
        assert [row.item.answer for row in rows] == answers
        assert [row.response for row in rows] == [f"<answer>{answer}" for answer in answers]
        assert [row.item.prompt for row in rows] == ["1+2 x?", "1+2 y?"][: len(answers)]
        assert {row.item.verifier for row in rows} == {"exact"}
        of_z = ["refused", "unfinished", "unparsed", "too_few_critics"]
        assert dropped == ["repeated", "unparsed", *["too_few_critics"] * (few - 1), *of_z]

    @pytest.mark.parametrize("name", ["merged_critiques", "critique_pairs"])
    def test_more_votes_than_critics_are_refused(self, name: str) -> None:
        with pytest.raises(InputError, match="min_votes 4 of 3 judges"):
            made(name, writers(["x"]), num_samples=1, min_votes=4)

    @pytest.mark.parametrize("name", ["merged_critiques", "critique_pairs"])
    def test_control_marks_of_a_response_are_broken_for_critics_and_in_rows(self, name: str) -> None:
        critics = [
            Scripted(lambda one, _, at=at: f"<answer>{one.data['response'][0]} {'aab'[at]}", f"c{at}")
            for at in range(3)
        ]
        found = Writers(teachers=[Scripted(lambda one, number: "4<|eos|>")], judges=critics)
        (row,), _ = made(name, found, num_samples=1)
        assert {prompt for one in critics for prompt, _ in one.asked} == {"1+2 4< |eos|>?"} == {row.item.prompt}

    def test_a_question_without_the_response_is_refused(self) -> None:
        with pytest.raises(OperatorRefused, match=r"lacks \{response\}"):
            made("merged_critiques", writers([]), question="{prompt}")


class TestPairs:
    def test_the_best_by_valid_units_stands_before_the_worst(self) -> None:
        rows, dropped = made("critique_pairs", writers(["x", "y"]), num_samples=2)
        # valid of x: 1 a, 2 b; F1 1, 2/3 and 4/5. valid of y: none; F1 1 and 0
        assert [(row.extras["chosen"], row.extras["rejected"]) for row in rows] == [
            ("<answer>1 a, 2 b", "<answer>2 b"),
            ("<answer>none", "<answer>1 a"),
        ]
        assert [row.extras["margin"] for row in rows] == pytest.approx([1 / 3, 1.0])
        assert rows[0].item.answer == "1 a, 2 b" and dropped == ["unparsed"]

    def test_what_too_few_critics_can_be_read_of_has_no_valid_units(self) -> None:
        said = {"x": ("<answer>1 a", "<answer>none", "")}
        assert made("critique_pairs", writers(["x"], said), num_samples=1, min_votes=3) == (
            [],
            ["unparsed", "too_few_critics"],
        )

    def test_critics_of_one_mind_give_no_pair(self) -> None:
        same = {"x": ("<answer>1 a",) * 3}
        assert made("critique_pairs", writers(["x"], same), num_samples=1) == ([], ["no_contrast"])

    @pytest.mark.parametrize(
        ("response", "said", "kept"),
        [
            ("<think>4+6=10 10-3=7<answer>7", ("1 term", "1 term", "none"), True),
            ("<think>4+7=11 11-3=8<answer>8", ("none", "none", "2 slip"), False),  # both revisions are right
            ("<think>4+6=10 10+3=13<answer>13", ("1 term", "1 term", "none"), False),  # neither is
            ("<think>4+7=11 11-3=8<answer>8", ("none", "none", "2 sign"), True),  # the rejected one spoils it
        ],
    )
    def test_a_pair_is_kept_where_the_revision_gains(self, response: str, said: tuple[str, ...], kept: bool) -> None:
        found = writers([response], {response: tuple(f"<answer>{one}" for one in said)})
        rows, dropped = made("critique_pairs", found, [sum_item()], num_samples=1, reviser="flaw_revision")
        assert (len(rows), dropped) == ((1, []) if kept else (0, ["no_gain"]))

    def test_an_unknown_reviser_is_refused(self) -> None:
        with pytest.raises(OperatorRefused, match="nobody"):
            made("critique_pairs", writers([]), reviser="nobody")
