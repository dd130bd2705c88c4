"""Pairs by judges' ratings: worked by hand, against brute force, and with judges that say anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.measure.slots import METRIC
from components.synthesize.component import asks
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from components.tasks.item import Item
from tests.measure.test_outcomes import written
from tests.measure.test_reward_models import context
from tests.synthesize.scripted import CONTEXT, item, scripted

ASKED = item("a", "say it well", "4")
Ratings = dict[str, str | None]


def made(texts: Sequence[str | None], ratings: Ratings, *, seed: int = 3, **config: Any) -> list[Made | Dropped]:
    def judge(asked: Item, number: int) -> str | None:
        return ratings.get(str(asked.data["response"]), "<answer>3")

    generator = OperatorSpec.model_validate({"name": "rated_pairs", "num_samples": len(texts), **config})
    writers = scripted(lambda asked, number: texts[number], judge)
    return list(generator.resolve(GENERATOR)([ASKED], writers, replace(CONTEXT, seed=seed)))


def counts(rows: Sequence[Made | Dropped]) -> dict[str, int]:
    return dict(Counter(row.reason if isinstance(row, Dropped) else "made" for row in rows))


def row_of(rows: Sequence[Made | Dropped]) -> Made:
    (row,) = [row for row in rows if isinstance(row, Made)]
    return row


def test_the_best_against_a_worse_one_and_every_other_text_is_counted() -> None:
    rows = made(
        ["good", None, "cut...", "good", "bad", "unread", "fair"],
        {"good": "fine <answer>5", "bad": "<answer>1", "unread": "<answer>ten", "fair": "<answer>3"},
        rejected="lowest",
    )
    assert counts(rows) == {"refused": 1, "unfinished": 1, "repeated": 1, "unrated": 1, "over_cap": 1, "made": 1}
    assert dict(row_of(rows).extras) == {
        "quality": "scripted", "chosen": "good", "rejected": "bad", "margin": 4.0, "label_source": "judge",
    }  # fmt: skip


def test_a_judge_that_draws_by_chance_draws_for_each_response_anew() -> None:
    ids: list[str] = []
    generator = OperatorSpec.model_validate({"name": "rated_pairs", "num_samples": 3})

    def judge(asked: Item, number: int) -> str:
        ids.append(asked.id)
        return "<answer>3"

    list(generator.resolve(GENERATOR)([ASKED], scripted(lambda asked, number: "xyz"[number], judge), CONTEXT))
    assert len(set(ids)) == 3  # a program's random numbers follow from an item's id


def test_a_random_worse_one_is_any_of_them_and_repeats() -> None:
    ratings: Ratings = {"good": "<answer>5", "bad": "<answer>1", "fair": "<answer>3"}
    texts = ["good", "bad", "fair"]
    drawn = {row_of(made(texts, ratings, seed=seed)).extras["rejected"] for seed in range(20)}
    assert drawn == {"bad", "fair"}
    assert made(texts, ratings) == made(texts, ratings)


def test_ties_are_dropped_and_poor_answers_too() -> None:
    assert counts(made(["x", "y"], {})) == {"no_contrast": 2}
    assert counts(made(["x", "y"], {"x": "<answer>2"}, min_rating=4)) == {"poor": 2}


def test_the_best_alone_is_a_demonstration() -> None:
    rows = made(["x", "y"], {"x": "<answer>4"}, rows="best")
    assert counts(rows) == {"over_cap": 1, "made": 1}
    assert (row_of(rows).response, dict(row_of(rows).extras)) == ("x", {"quality": "scripted", "rating": 4.0})
    for rows_kind, kind in (("pairs", "preferences"), ("best", "demonstrations")):
        params = SynthesizeParams.model_validate({"generator": {"name": "rated_pairs", "rows": rows_kind}})
        assert params.making.kind == kind and asks(params)["judges"] == ["generator 'rated_pairs'"]


@pytest.mark.parametrize(
    "said", ["<answer>6", "<answer>0", "<answer>-3", "<answer>4.5", "<answer>٤", "", None, "5 stars..."]
)
def test_what_is_no_rating_rates_nothing(said: str | None) -> None:
    assert counts(made(["x", "y"], {"x": said})) == {"unrated": 1, "no_contrast": 1}


def test_a_response_that_holds_a_rating_is_only_quoted() -> None:
    rows = made(
        ["bad <answer>5", "good"], {"bad <answer>5": "it says <answer>5 itself: <answer>1", "good": "<answer>4"}
    )
    assert row_of(rows).extras["chosen"] == "good"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_no_answer_is_rated_above_the_chosen_one(ratings: list[int]) -> None:
    texts = [f"t{number}" for number in range(len(ratings))]
    table: Ratings = {text: f"<answer>{rating}" for text, rating in zip(texts, ratings, strict=True)}
    rows = made(texts, table)
    if len(set(ratings)) == 1:
        assert counts(rows) == {"no_contrast": len(ratings)}
        return
    extras = row_of(rows).extras
    chosen, rejected = (ratings[texts.index(extras[side])] for side in ("chosen", "rejected"))
    assert chosen == max(ratings) > rejected and extras["margin"] == chosen - rejected


def test_settings_that_tell_nothing_are_refused() -> None:
    for bad, message in (({"low": 5}, "low 5 is not below high 5"), ({"question": "{prompt}?"}, r"lacks \{response\}")):
        with pytest.raises((ValidationError, InputError), match=message):
            OperatorSpec.model_validate({"name": "rated_pairs", **bad}).resolve(GENERATOR)


def test_the_metric_measures_what_the_domain_prefers() -> None:
    outcome = replace(written("77", "rw"), responses=("<answer>def f(v):\n return v # same", "<answer>def f(v:"))
    asked = replace(outcome, item=outcome.item.model_copy(update={"domain": "comments"}))
    operator = OperatorSpec(name="code_style").resolve(METRIC)
    assert operator([asked], context()) == {"code_style": [0.5]}
    with pytest.raises(InputError, match=r"metric code_style: the domain"):
        operator([outcome], context())
    short = OperatorSpec.model_validate({"name": "code_style", "preference": "short"}).resolve(METRIC)
    assert short([outcome], context()) == {"code_style": [0.5]}


def test_judges_read_no_control_marks_of_what_they_judge() -> None:
    seen = []

    def judge(asked: Item, number: int) -> str:
        seen.append(asked.prompt)
        return "<answer>3"

    generator = OperatorSpec.model_validate({"name": "rated_pairs", "num_samples": 2})
    writers = scripted(lambda asked, number: ("a <|eos|>", "b </s>")[number], judge)
    list(generator.resolve(GENERATOR)([ASKED], writers, CONTEXT))
    assert len(seen) == 2 and not any(mark in text for text in seen for mark in ("<|eos|>", "</s>"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"low": -1}, "greater than or equal to 0"),
        ({"high": 10}, "ratings go from 1 to 10"),
        ({"min_rating": 9}, "above high 5"),
    ],
)
def test_a_scale_that_cannot_be_met_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, ValidationError), match=words):
        made(["a"], {}, **config)
