"""Lessons for judges: what is taught is what is asked and read, and a verdict that could not be read is not taught."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.judges.config import PointwiseConfig
from components.judges.judge import Case, PointwiseJudge
from components.judges.lessons import Lessons, check_scale
from tests.judges.scripted import Scripted

LABELS: dict[str, Any] = {"labels": {"no": 0, "yes": 1}}
WAYS: list[dict[str, Any]] = [
    {},
    LABELS,
    {"reading": "json"},
    {"reading": "json", "fence": "quoted", **LABELS},
    {"mark": "", "fence": "quoted", **LABELS},
    {"mark": "Final decision:", **LABELS},
    {"template": "{task} {response} {answer}=", "mark": "so", **LABELS},
]


def test_a_lesson_by_hand() -> None:
    config = PointwiseConfig.model_validate(
        {"template": "{response} {answer}=", "mark": "so", "fence": "quoted", **LABELS}
    )
    lesson = Lessons(config).lesson(Case("2 + 2 =", "4"), "<answer>4", 1.0)
    assert lesson is not None
    assert (lesson.request, lesson.said, lesson.verdict) == ('"<answer>4" "4"=', "so yes", "yes")


def test_scores_become_the_nearest_label_or_whole_number() -> None:
    three = Lessons(PointwiseConfig.model_validate({"labels": {"bad": 0, "fair": 0.5, "good": 1}}))
    assert [three.verdict(score) for score in (0.0, 0.3, 0.7, 0.8, 1.0)] == ["bad", "fair", "fair", "good", "good"]
    ten = Lessons(PointwiseConfig())
    assert [ten.verdict(score) for score in (0.0, 0.34, 0.66, 1.0)] == ["0", "3", "7", "10"]
    assert ten.worth("7") == pytest.approx(0.7)


@pytest.mark.parametrize("way", WAYS)
@given(response=st.text(max_size=40), score=st.sampled_from([0.0, 0.3, 1.0]))
def test_a_judge_that_says_what_it_was_taught_is_read_so(way: dict[str, Any], response: str, score: float) -> None:
    """The independent reference is the judge itself: asked about the response, it gets the request of the lesson."""
    config, case = PointwiseConfig.model_validate(way), Case("task", "ref")
    lesson = Lessons(config).lesson(case, response, score)
    if lesson is None:
        return  # it holds its own verdict; a plain one is taught in every way, which is tested below
    asked = Scripted(lambda request: lesson.said if request == lesson.request else "something else")
    (found,) = PointwiseJudge(asked, config).judge([(case, response)])
    nearest = round(10 * score) / 10 if not config.labels else float(score > 0.5)
    assert found.value == pytest.approx(nearest)


@pytest.mark.parametrize(
    "way", [*WAYS, {"low": 0.5, "high": 10.5}, {"low": -0.5, "high": 1.5}, {"low": 0.2, "high": 2.9}]
)
@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_a_plain_response_is_taught_in_every_way(way: dict[str, Any], score: float) -> None:
    config = PointwiseConfig.model_validate(way)
    check_scale(config)
    lessons = Lessons(config)
    lesson = lessons.lesson(Case("task", "ref"), "a plain response", score)
    assert lesson is not None
    assert lessons.verdict(0.0) != lessons.verdict(1.0)
    if not config.labels:
        assert config.low <= int(lesson.verdict) <= config.high


def test_a_verdict_that_stands_in_the_response_is_not_taught() -> None:
    config = PointwiseConfig.model_validate({"mark": "so", "template": "{response} {mark}", **LABELS})
    assert Lessons(config).lesson(Case("", ""), "so yes", 1.0) is None
    assert Lessons(config).lesson(Case("", ""), "so yes", 0.0) is not None, "the other verdict does not stand there"
    signed = PointwiseConfig.model_validate(LABELS)
    assert Lessons(signed).lesson(Case("", ""), "Verdict: yes", 1.0) is not None, "a mark with a nonce cannot"


@pytest.mark.parametrize("way", WAYS)
def test_a_scale_that_tells_nothing_apart_is_refused(way: dict[str, Any]) -> None:
    check_scale(PointwiseConfig.model_validate(way))
    with pytest.raises(InputError, match="all labels are worth the same"):
        check_scale(PointwiseConfig.model_validate(way | {"labels": {"a": 1, "b": 1}}))
    for low, high in ((0, 0.5), (0.5, 1.5), (0.1, 1.9)):
        with pytest.raises(InputError, match=f"no two between {low} and {high}"):
            check_scale(PointwiseConfig.model_validate(way | {"labels": {}, "low": low, "high": high}))
