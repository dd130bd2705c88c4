"""Pairs of one response and its broken form: by hand, and read as preferences."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from components.curation.candidate import Candidate
from components.synthesize.generators.format_pairs import FormatPairsConfig, format_pairs
from components.synthesize.made import Dropped, Made
from components.synthesize.rendering import render_rows
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.verify import verify_all
from tests.synthesize.scripted import CONTEXT, item, scripted

SUM = item("a", "2 + 2 =", "4")
RIGHT = "<think>2+2=4<answer>4"
TEXTS = ["4", "<think>2+2=5<answer>5", RIGHT, RIGHT, None, "<think>still...", "<think>4<answer>4"]


def made(texts: list[str | None], **config: object) -> list[Made | Dropped]:
    settings = FormatPairsConfig.model_validate({"num_samples": len(texts), "grammar": {"closing": False}, **config})
    return list(format_pairs([SUM], scripted(lambda asked, number: texts[number]), CONTEXT, config=settings))


def test_one_form_is_rejected_and_every_other_text_is_counted() -> None:
    assert made(TEXTS, forms=["swapped"]) == [
        Dropped("malformed"),
        Dropped("wrong"),
        Dropped("refused"),
        Dropped("unfinished"),
        Dropped("repeated"),
        Dropped("over_cap"),
        Made(
            SUM,
            None,
            {
                "quality": "scripted",
                "chosen": RIGHT,
                "rejected": "<answer>4<think>2+2=4",
                "label_source": "swapped",
            },
        ),
    ]


def test_the_chosen_responses_alone_are_those_of_the_pairs() -> None:
    pairs = [row for row in made(TEXTS, max_per_prompt=2) if isinstance(row, Made)]
    alone = [row for row in made(TEXTS, max_per_prompt=2, rows="chosen") if isinstance(row, Made)]
    assert [row.extras["chosen"] for row in pairs] == [row.response for row in alone] == [RIGHT, "<think>4<answer>4"]
    assert FormatPairsConfig(rows="chosen").kind == "demonstrations" and FormatPairsConfig().kind == "preferences"


def test_forms_vary_over_prompts_and_both_sides_answer_alike() -> None:
    items = [item(f"n{number}", "2 + 2 =", "4") for number in range(60)]
    config = FormatPairsConfig.model_validate({"num_samples": 1, "grammar": {"closing": False}})
    found = list(format_pairs(items, scripted(lambda asked, number: RIGHT), CONTEXT, config=config))
    again = list(format_pairs(items, scripted(lambda asked, number: RIGHT), CONTEXT, config=config))
    rows = [row for row in found if isinstance(row, Made)]
    assert found == again and len(rows) == 60
    assert len({row.extras["label_source"] for row in rows}) == 6
    # without a mark, without an end, or within a thought that is not closed, there is no answer or another one
    unreadable = ("unmarked_last", "swapped", "rewrapped")
    kept = [row for row in rows if row.extras["label_source"] not in unreadable]
    assert all(verdict.right for verdict in verify_all([(row.item, row.extras["rejected"]) for row in kept]))


def test_a_form_that_no_response_can_have_gives_nothing() -> None:
    assert made([RIGHT], forms=["unclosed"]) == [Dropped("no_form")]


def test_rows_are_preferences() -> None:
    (row,) = [one for one in made([RIGHT], forms=["no_thought"]) if isinstance(one, Made)]
    draft = Candidate(SUM.id, SUM.domain, 0, item=SUM, extras=row.extras)
    (written,) = render_rows([draft], "preferences")  # type: ignore[arg-type]
    pair = preference_of(written)
    assert (pair.chosen, pair.rejected, pair.label_source) == (RIGHT, "<answer>4", "no_thought")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"forms": []}, "at least 1 item"),
        ({"forms": ["upside_down"]}, "upside_down"),
        ({"grammar": {"tags": ["<a>"]}}, "pattern"),
    ],
)
def test_bad_settings_are_refused(config: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        FormatPairsConfig.model_validate(config)
