"""Rejection sampling against rows that were worked out by hand."""

from __future__ import annotations

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.synthesize.generators.rejection import RejectionConfig, rejection
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from tests.synthesize.scripted import CONTEXT, Scripted, item, scripted

SUM = item("a", "2 + 2 =", "4")
DIFFERENCE = item("b", "9 - 2 =", "7")
TEXTS = ["<think>2+2=4<answer>4", "<answer>5", "<answer>4", None, "<think>still...", "<answer>4"]


def test_right_finished_and_distinct_texts_stay_and_every_other_one_is_counted() -> None:
    config = RejectionConfig(num_samples=6)
    made = list(rejection([SUM], scripted(lambda asked, number: TEXTS[number]), CONTEXT, config=config))
    assert made == [
        Dropped("wrong"),
        Dropped("refused"),
        Dropped("unfinished"),
        Dropped("repeated"),
        Made(SUM, "<think>2+2=4<answer>4", {"quality": "scripted"}),
        Made(SUM, "<answer>4", {"quality": "scripted"}),
    ]


@pytest.mark.parametrize(
    ("prefer", "cap", "kept"),
    [
        ("first", 1, ["<think>2+2=4<answer>4"]),
        ("shortest", 1, ["<answer>4"]),
        ("shortest", None, ["<answer>4", "<think>2+2=4<answer>4"]),
    ],
)
def test_the_cap_takes_the_first_or_the_shortest(prefer: str, cap: int | None, kept: list[str]) -> None:
    config = RejectionConfig(num_samples=6, prefer=prefer, max_per_prompt=cap)
    made = list(rejection([SUM], scripted(lambda asked, number: TEXTS[number]), CONTEXT, config=config))
    assert [row.response for row in made if isinstance(row, Made)] == kept
    assert [row for row in made if row == Dropped("over_cap")] == [Dropped("over_cap")] * (2 - len(kept))
    assert len(made) == 6, "each text is a row or counted as dropped"


def test_who_got_nothing_right_is_asked_again_with_the_answer_which_rows_do_not_hold() -> None:
    def say(asked: object, number: int) -> str:
        prompt = asked.prompt  # type: ignore[attr-defined]
        return f"<answer>{'7' if 'answer is 7' in prompt else '4'}"

    writers = scripted(say)
    config = RejectionConfig(num_samples=1, rationalise=True, hint="{answer} is answer is {answer}: {prompt}")
    made = list(rejection([SUM, DIFFERENCE], writers, CONTEXT, config=config))
    assert made == [
        Made(SUM, "<answer>4", {"quality": "scripted"}),
        Dropped("wrong"),
        Made(DIFFERENCE, "<answer>7", {"quality": "scripted", "rationalised": True}),
    ]
    teacher = writers.teachers[0]
    assert isinstance(teacher, Scripted)
    assert [prompt for prompt, _ in teacher.asked] == ["2 + 2 =", "9 - 2 =", "7 is answer is 7: 9 - 2 ="]
    seeds = [drawing.seed for _, drawing in teacher.asked]
    assert seeds[0] == seeds[1] != seeds[2], "another purpose has other random numbers"


def test_a_prompt_that_holds_a_placeholder_stays_text() -> None:
    hostile = item("h", "say {answer} {prompt} {secret}", "8")
    writers = scripted(lambda asked, number: "<answer>1")
    list(rejection([hostile], writers, CONTEXT, config=RejectionConfig(num_samples=1, rationalise=True)))
    teacher = writers.teachers[0]
    assert isinstance(teacher, Scripted)
    assert teacher.asked[1][0] == "say {answer} {prompt} {secret}\n(hint: the answer is 8)"


def test_several_writers_share_a_cap_and_failed_verifications_are_no_wrong_answers() -> None:
    broken = item("c", "what?", "4", "no_such_verifier")
    writers = scripted(lambda asked, number: "<answer>4")
    made = list(rejection([broken], writers, CONTEXT, config=RejectionConfig(num_samples=2)))
    assert made == [Dropped("verification_failed")] * 2


@pytest.mark.parametrize(
    ("hint", "says"),
    [("{prompt} only", "lacks {answer}"), ("{prompt} {answer} {solution}", "nothing fills {solution}")],
)
def test_a_hint_that_cannot_work_is_refused(hint: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("{", r"\{")):
        OperatorSpec.model_validate({"name": "rejection", "hint": hint}).resolve(GENERATOR)
