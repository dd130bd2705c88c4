"""Rubrics: points worked by hand, vetoes, and a planted phrase that a weighted mean rewards and a veto does not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.rl.params import RLParams
from components.tasks.item import Item
from components.tasks.rubric import Rubric, rubric_of
from components.tasks.verify import SETTINGS, verify
from tests.rl.build import context, near, operator
from tests.rl.operators.test_rewards import answers


def phrase(name: str, *phrases: str, need: str = "all", **more: Any) -> dict[str, Any]:
    return {"name": name, "verifier": {"name": "phrases", "need": need}, "data": {"phrases": list(phrases)}, **more}


SHORT = {"name": "short", "verifier": {"name": "word_count", "most": 4}}


def made(*criteria: dict[str, Any], **more: Any) -> Rubric:
    return Rubric.model_validate({"criteria": criteria, **more})


def scored(texts: list[str], rubric: Any, **config: Any) -> tuple[list[float], dict[str, float]]:
    now = context()
    return operator("reward", "rubric", **config)(answers(texts, rubric=rubric), now).tolist(), now.metrics


def test_points_over_the_most_there_are() -> None:
    # weights 3, 1 and -2: the most is 4
    rubric = [phrase("points", "b7", "k2", weight=3), SHORT, phrase("rude", "stupid", weight=-2)]
    texts = ["b7 then k2", "b7 and then some more words", "b7 k2 stupid", "stupid and many more words"]
    found, metrics = scored(texts, rubric)
    assert near(found, [1.0, 1.5 / 4, 2 / 4, 0.0])
    assert metrics == {"criterion_points": 2.5 / 4, "criterion_short": 0.5, "criterion_rude": 0.5}


def test_a_criterion_of_the_stage_may_check_what_the_row_holds() -> None:
    """The row's own settings of its verifier are not the criterion's, and what the criterion has comes first."""
    points = {"name": "points", "verifier": {"name": "phrases", "key": "points"}, "of_item": True}
    same = {"name": "same", "verifier": "exact", "of_item": True}
    other = {"name": "other", "verifier": "exact", "of_item": True, "answer": "k2"}
    alone = {"name": "alone", "verifier": "exact", "answer": "k2"}
    data = {"points": ["b7", "k2"], "aliases": ["k3"], SETTINGS: {"need": "none"}}
    now = context()
    default = {"criteria": [points, same, other, alone]}
    found = operator("reward", "rubric", default=default)(answers(["b7", "k2", "k3"], "zz", **data), now)
    # k3 is an alias of the row: for criteria that see the row, and not for the one that does not
    assert near(found, [0.5 / 4, (0.5 + 0 + 1 + 1) / 4, (0 + 1 + 1 + 0) / 4])


def test_tiers_and_saturation() -> None:
    tiers = [{"at_least": 0.5, "points": 0.2}, {"at_least": 1.0, "points": 1.0}]
    criterion = phrase("points", "a", "b", "c", "d", tiers=tiers)
    assert near(scored(["a", "a b", "a b c", "a b c d"], [criterion])[0], [0, 0.2, 0.2, 1])
    flat = phrase("points", "a", "b", "c", "d", saturation={"above": 0.5, "slope": 0.5})
    assert near(scored(["a", "a b", "a b c", "a b c d"], [flat])[0], [0.25, 0.5, 0.625, 0.75])


def test_interactions_reward_both_or_punish_their_conflict() -> None:
    both = {"criteria": [phrase("a", "a"), phrase("b", "b")], "interactions": [{"of": ["a", "b"], "weight": 2}]}
    assert near(scored(["a", "a b", "x"], both)[0], [0.25, 1.0, 0.0])
    both["interactions"] = [{"of": ["a", "b"], "weight": -1}]
    assert near(scored(["a", "a b", "x"], both)[0], [0.5, 0.5, 0.0])


def test_a_planted_phrase_wins_a_weighted_mean_and_a_veto_stops_it() -> None:
    """The judge-like criterion likes praise: honest notes of one point lose to empty praise, until praise is a veto."""
    likes = phrase("pleasant", "so good", weight=3)
    content = phrase("points", "b7", "k2")
    honest, hacked = "b7 then k2", "so good"
    (plain, gamed), _ = scored([honest, hacked], [likes, content])
    assert gamed > plain
    guard = phrase("no_praise", "so good", need="none", veto=True, weight=0)
    limited = {**likes, "saturation": {"above": 0.0, "slope": 0.0}}
    (kept, stopped), metrics = scored([honest, hacked], [limited, content, guard])
    assert (stopped, metrics["vetoed"]) == (0.0, 0.5) and kept > stopped
    assert scored([hacked], {"criteria": [content, guard], "veto_value": -1})[0] == [-1]


def test_a_check_that_cannot_judge_is_no_score() -> None:
    (found,), metrics = scored(["b7"], [phrase("points", "b7"), {"name": "odd", "verifier": "numeric", "answer": "x"}])
    assert math.isnan(found) and metrics == {"criterion_points": 1.0}


def test_the_default_rubric_is_for_items_without_one() -> None:
    default = {"criteria": [SHORT]}
    now, bound = context(), operator("reward", "rubric", default=default)
    assert bound(answers(["a", "a b c d e"]), now).tolist() == [1, 0]
    with pytest.raises(InputError, match=r"item a has no data\.rubric"):
        operator("reward", "rubric")(answers(["a"]), now)
    with pytest.raises(InputError, match=r"data\.rubric of item a is no rubric.*criteria"):
        operator("reward", "rubric")(answers(["a"], rubric=[]), now)


@pytest.mark.parametrize(
    ("rubric", "said"),
    [
        ({"criteria": []}, "at least 1 item"),
        ({"criteria": [SHORT | {"weight": 0}]}, "positive weights sum to 0"),
        ({"criteria": [SHORT | {"weight": -1}]}, "positive weights sum to 0"),
        ({"criteria": [SHORT, SHORT]}, "different names, not short, short"),
        ({"criteria": [SHORT], "interactions": [{"of": ["short", "long"], "weight": 1}]}, "the criterion 'long'"),
        ({"criteria": [SHORT | {"tiers": [{"at_least": 0.5, "points": 2}]}]}, "less than or equal to 1"),
        (
            {"criteria": [SHORT | {"tiers": [{"at_least": 0.5, "points": 1}, {"at_least": 0.5, "points": 1}]}]},
            "tiers rise",
        ),
        ({"criteria": [SHORT | {"name": "<script>"}]}, "name"),
        ({"criteria": [SHORT | {"verifier": "phrase"}]}, "did you mean 'phrases'?"),
        (
            {"criteria": [SHORT | {"verifier": {"name": "word_count", "least": 9, "most": 4}}]},
            "least 9 is above most 4",
        ),
    ],
)
def test_bad_rubrics_are_a_line_at_load_time(rubric: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RLParams.model_validate({"rewards": [{"name": "rubric", "default": rubric}]})
    assert said in str(caught.value)
    item = Item(id="a", domain="A", prompt="", answer="", verifier="exact", data={"rubric": rubric})
    with pytest.raises(InputError, match="item a is no rubric"):
        rubric_of(item, "rubric")


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 1), st.booleans()), min_size=1, max_size=5).filter(
        lambda rows: any(weight > 0.01 for weight, _, _ in rows)
    )
)
def test_a_total_lies_between_0_and_1_and_rises_with_what_is_wanted(rows: list[tuple[float, float, bool]]) -> None:
    names = [f"c{at}" for at in range(len(rows))]
    rubric = made(*(SHORT | {"name": name, "weight": row[0]} for name, row in zip(names, rows, strict=True)))
    scores = {name: row[1] for name, row in zip(names, rows, strict=True)}
    total = rubric.total(scores)
    brute = sum(w * s for w, s, _ in rows) / sum(w for w, _, _ in rows if w > 0)
    assert total == pytest.approx(min(1.0, max(0.0, brute)))
    for name, (weight, _, _) in zip(names, rows, strict=True):
        better = rubric.total(scores | {name: 1.0 if weight > 0 else 0.0})
        assert better >= total - 1e-12


@pytest.mark.parametrize(
    ("verifier", "data", "response", "score"),
    [
        ("phrases", {"phrases": ["so good"]}, "So  good", 0.0),  # the phrase as it is written, white space included
        ("phrases", {"phrases": ["so good", "b7"]}, "it is so good.", 0.5),
        ("phrases", {"phrases": ["good"]}, "goodness", 0.0),
        ("phrases", {"phrases": ["a", "b"], "settings": {"need": "any"}}, "b", 1.0),
        ("word_count", {"settings": {"least": 2, "most": 3}}, "<think>a b c d e</think><answer>a b", 1.0),
        ("word_count", {"settings": {"most": 3, "margin": 3}}, "a b c d", 0.75),
        ("word_count", {"settings": {"most": 3, "whole": True}}, "<think>a b c d e</think><answer>a b", 0.0),
    ],
)
def test_programmatic_criteria(verifier: str, data: dict[str, Any], response: str, score: float) -> None:
    item = Item(id="a", domain="A", prompt="", answer="", verifier=verifier, data=data)
    assert verify(item, response).score == pytest.approx(score)
