"""Rows that teach a judge: the request that it will be asked, and what it should say."""

from __future__ import annotations

from pydantic import Field, field_validator

from components.judges.config import PointwiseConfig
from components.judges.judge import Case
from components.judges.lessons import Lessons, check_scale
from components.synthesize.asking import judgement
from components.synthesize.config import GeneratorConfig
from components.synthesize.made import Dropped, Made
from components.tasks.item import Item

UNREADABLE = "unreadable"
"""A verdict that also stands in the response, so that no judge could be read that says it."""


class TeachingConfig(GeneratorConfig):
    """How the judge will be asked, and how many rows a prompt gives."""

    judge: PointwiseConfig
    """Template, reading and labels: those of the operator that will ask the judge. A row's prompt is its request."""
    max_per_prompt: int | None = Field(default=None, ge=1)
    """Most rows of a prompt, of each verdict; null keeps all."""

    @field_validator("judge")
    @classmethod
    def _teachable(cls, judge: PointwiseConfig) -> PointwiseConfig:
        check_scale(judge)
        return judge


def case_of(item: Item) -> Case:
    """Return what responses to an item are judged for, as reward `judge` has it."""
    return Case(item.prompt, item.answer)


def taught(lessons: Lessons, item: Item, response: str, score: float, writer: str) -> Made | Dropped:
    """Return the row in which a judge says of a response what it is worth."""
    lesson = lessons.lesson(case_of(item), response, score)
    if lesson is None:
        return Dropped(UNREADABLE)
    marks = {"of": item.id, "quality": writer, "score": score}
    return Made(judgement(item, lesson.request, lesson.verdict), lesson.said, marks)
