"""Pairs with critiques: by hand, beside the same pairs without, and with critics that write nothing usable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from components.synthesize.generators.critiqued_pairs import CritiquedPairsConfig, critiqued_pairs
from components.synthesize.made import Dropped, Made
from components.synthesize.writers import Writers
from components.tasks.item import Item
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")
TEXTS = ["<answer>5", "<answer>4", "<think>2+2=4<answer>4", "<answer>5"]


def critic(asked: Item, number: int) -> str | None:
    return "says 4 <answer>right" if asked.data["response"] == "<answer>4" else "says 5 <answer>wrong"


def made(judge: object = critic, **config: object) -> list[Made | Dropped]:
    settings = CritiquedPairsConfig.model_validate({"num_samples": len(TEXTS), **config})
    writers = scripted(lambda asked, number: TEXTS[number], judge)  # type: ignore[arg-type]
    return list(critiqued_pairs([SUM], writers, CONTEXT, config=settings))


def test_each_side_is_followed_by_its_critique() -> None:
    marks = {"quality": "scripted", "label_source": "numeric", "margin": 1.0}
    sides = {"chosen": "<answer>4\nsays 4 <answer>right", "rejected": "<answer>5\nsays 5 <answer>wrong"}
    assert made() == [Dropped("repeated"), Dropped("over_cap"), Made(SUM, None, {**marks, **sides})]
    (plain,) = [row for row in made(critique="none") if isinstance(row, Made)]
    assert plain.extras == {**marks, "chosen": "<answer>4", "rejected": "<answer>5"}


def test_judges_are_asked_about_a_response_that_they_may_not_be_told_by() -> None:
    writers = scripted(lambda asked, number: ["<answer>{prompt}", "<answer>4"][number], critic)
    config = CritiquedPairsConfig(num_samples=2, question="{prompt} | {response}")
    list(critiqued_pairs([SUM], writers, CONTEXT, config=config))
    asked = [prompt for prompt, _ in writers.judges[0].asked]  # type: ignore[attr-defined]
    assert {drawing.temperature for _, drawing in writers.judges[0].asked} == {0.0}  # type: ignore[attr-defined]
    assert {drawing.temperature for _, drawing in writers.teachers[0].asked} == {1.0}  # type: ignore[attr-defined]
    assert asked == ["2 + 2 = | <answer>4", "2 + 2 = | <answer>{prompt}"], "a template in a response stays text"


@pytest.mark.parametrize(("said", "reason"), [(None, "refused"), ("...", "unfinished"), ("  ", "unparsed")])
def test_a_critique_that_cannot_be_read_drops_the_pair(said: str | None, reason: str) -> None:
    assert made(lambda asked, number: said)[-1] == Dropped(reason)


def test_the_first_critique_that_can_be_read_counts() -> None:
    writers = scripted(lambda asked, number: TEXTS[number], lambda asked, number: "cut...")
    second = scripted(lambda asked, number: "", critic).judges
    both = Writers(teachers=writers.teachers, judges=[*writers.judges, *second])
    found = list(critiqued_pairs([SUM], both, CONTEXT, config=CritiquedPairsConfig(num_samples=len(TEXTS))))
    assert found == made()


def test_judges_are_needed_only_where_critiques_are_asked_for() -> None:
    assert CritiquedPairsConfig().judges and not CritiquedPairsConfig(critique="none").judges
    with pytest.raises(ValidationError, match="the template lacks"):
        CritiquedPairsConfig(question="{prompt}")
