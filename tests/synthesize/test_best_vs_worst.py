"""Pairs against rows that were worked out by hand, and read as preferences."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from components.curation.candidate import Candidate
from components.synthesize.generators.best_vs_worst import BestVsWorstConfig, best_vs_worst
from components.synthesize.made import Dropped, Made
from components.synthesize.rendering import render_rows
from components.tasks.row_kinds.preferences import Preference, preference_of
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")
TEXTS = ["<answer>5", "<think>2+2=4<answer>4", "<answer>4", None, "<think>still...", "<answer>4", "<answer>6"]


def made(texts: list[str | None], **config: object) -> list[Made | Dropped]:
    settings = BestVsWorstConfig.model_validate({"num_samples": len(texts), **config})
    return list(best_vs_worst([SUM], scripted(lambda asked, number: texts[number]), CONTEXT, config=settings))


def test_the_best_and_the_worst_become_a_pair_and_every_other_text_is_counted() -> None:
    marks = {"quality": "scripted", "margin": 1.0, "label_source": "numeric", "rejected": "<answer>5"}
    assert made(TEXTS) == [
        Dropped("refused"),
        Dropped("unfinished"),
        Dropped("repeated"),
        Dropped("over_cap"),
        Dropped("over_cap"),
        Made(SUM, None, {**marks, "chosen": "<think>2+2=4<answer>4"}),
    ]
    (pair,) = [row for row in made(TEXTS, prefer="shortest") if isinstance(row, Made)]
    assert pair.extras["chosen"] == "<answer>4"


@pytest.mark.parametrize("texts", [["<answer>4", "<answer>4", "<think>2+2=4<answer>4"], ["<answer>5", "<answer>6"]])
def test_texts_that_are_all_right_or_all_wrong_give_no_pair(texts: list[str | None]) -> None:
    found = made(texts)
    assert found and all(row in (Dropped("no_contrast"), Dropped("repeated")) for row in found)
    assert len(found) == len(texts)


def test_rows_are_preferences() -> None:
    (row,) = [row for row in made(TEXTS) if isinstance(row, Made)]
    draft = Candidate(SUM.id, SUM.domain, 0, item=SUM, extras=row.extras)
    (written,) = render_rows([draft], "preferences")  # type: ignore[arg-type]
    assert "response" not in written
    assert preference_of(written) == Preference(
        task=SUM.prompt,
        chosen="<think>2+2=4<answer>4",
        rejected="<answer>5",
        margin=1.0,
        label_source="numeric",
        domain="d",
        id="a",
    )


def test_a_gap_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="min_gap"):
        BestVsWorstConfig(min_gap=0)
