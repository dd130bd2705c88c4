"""Preference items, who judges them, and the rule by which a judge is right."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.candidate_scores import ranked_items, ranking_of
from components.tasks.domains.worlds.weighted_marks import KINDS, marks_under, rule_of, rules_of, score_of, worth
from components.tasks.item import Item
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import SourceRequest
from components.tasks.verify import Outcome, verify

SHOWN: dict[str, Any] = {"candidates": ["3827", "5164", "8245"], "kind": "g", "criteria": 4}


def items(count: int = 60, seed: int = 1, **config: Any) -> list[Item]:
    request = SourceRequest(seed=seed, limit=count, scratch=Path("unused"))
    drawn = OperatorSpec.model_validate({"name": "preference_items", **config}).resolve(SOURCE)(request)
    fields = ("prompt", "answer", "verifier", "data")
    return [
        Item(id=f"p{at}", domain="items", **{name: getattr(row, name) for name in fields})
        for at, row in enumerate(islice(drawn.rows, count))
    ]


def item(**data: Any) -> Item:
    return Item(id="a", domain="d", prompt="rank", answer="1 2 3", verifier="ranks_best", data=data)


def write(given: Item, seed: int = 0, **config: Any) -> str:
    bound = OperatorSpec.model_validate({"name": "preference_items", **config}).resolve(DEMONSTRATOR)
    return str(bound(given, random.Random(seed)))


def test_a_rule_by_hand() -> None:
    assert rule_of("g", 4) == "ab" and marks_under("3827", "ab") == [3, 8] and marks_under("3827", "dc") == [7, 2]
    assert worth([3, 8]) == 14 and score_of([3, 8]) == 5  # 14 / 3 = 4.67
    assert [score_of(marks) for marks in ([1, 1], [9, 9], [5, 1], [8, 2])] == [1, 9, 4, 6]
    assert len(rules_of(4)) == 12 == len({rule_of(kind, 4) for kind in KINDS[:12]}), "as many rules as there can be"


@given(st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_a_lead_of_three_shows_in_the_scores(marks: list[int]) -> None:
    better, worse = marks[:2], marks[2:]
    assert score_of(better) == round(worth(better) / 3)
    if worth(better) - worth(worse) >= 3:
        assert score_of(better) > score_of(worse)


def test_the_best_of_every_item_leads_by_its_kinds_rule() -> None:
    for config in ({}, {"candidates": 5, "criteria": 3, "kinds": 2, "lead": 5}):
        for one in items(**config):
            kind, *shown = one.prompt.removeprefix("rank ").replace(":", "").split()
            rule = [ord(letter) - ord("a") for letter in rule_of(kind, len(shown[0]))]
            values = [2 * int(text[rule[0]]) + int(text[rule[1]]) for text in shown]
            best = max(range(len(values)), key=values.__getitem__)
            others = [value for place, value in enumerate(values) if place != best]
            assert one.data["best"] == best and values[best] - max(others) >= config.get("lead", 3)
            assert verify(one, f"<answer>{one.answer}").right and kind in KINDS[: config.get("kinds", 8)]
    assert {one.data["best"] for one in items()} == {0, 1, 2}, "the place tells nothing"


def test_parts_share_no_item_and_seeds_repeat() -> None:
    assert [one.prompt for one in items(seed=4)] == [one.prompt for one in items(seed=4)]
    low, high = ({one.prompt for one in items(200, part=part)} for part in ([0, 0.2], [0.2, 1]))
    assert not low & high


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"criteria": 1}, "criteria"),
        ({"kinds": 99}, "kinds"),
        ({"candidates": 8, "lead": 6}, "take at most 5 candidates"),
        ({"lead": 2}, "lead"),
    ],
)
def test_items_that_cannot_be_made_are_refused(config: dict[str, Any], what: str) -> None:
    with pytest.raises(OperatorRefused, match=what):
        items(**config)


def test_a_judgement_by_hand() -> None:
    assert write(item(**SHOWN)) == "<think>ab 38>5 51>4 82>6<answer>5 4 6"
    slipped = write(item(**SHOWN), slip_rate=1.0)
    assert slipped.startswith("<think>ab 38>") and all(
        abs(int(given) - due) in (1, 2) for given, due in zip(slipped[-5:].split(), (5, 4, 6), strict=True)
    )


def test_other_principles_are_followed_and_wrong_as_often_as_asked() -> None:
    given_rules = []
    for at, one in enumerate(items(300)):
        text = write(one, seed=at, principle_error_rate=0.5)
        rule = text.removeprefix("<think>")[:2]
        given_rules.append(rule == rule_of(one.data["kind"], 4))
        scores = [score_of(marks_under(candidate, rule)) for candidate in one.data["candidates"]]
        assert text.endswith(f"<answer>{' '.join(map(str, scores))}")
        assert write(one, seed=at, principle_error_rate=1.0)[7:9] != rule_of(one.data["kind"], 4)
        assert verify(one, write(one, seed=at)).right
    assert 110 < sum(given_rules) < 190


@pytest.mark.parametrize(
    "data",
    [{}, {**SHOWN, "kind": "a"}, {**SHOWN, "kind": 3}, {**SHOWN, "criteria": 5}, {**SHOWN, "candidates": ["38x7"]}],
)
def test_a_judge_of_other_items_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="item a is not of source preference_items"):
        write(item(**data))


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("<answer>5 4 6", True),
        ("<answer>5, 4, 6</answer> and more", True),
        ("<answer>1\n1\n9", True),
        ("5 4 6", True),
        ("<think>9 9 9<answer>1 1 2", True),
        ("<answer>6 4 6", False),
        ("<answer>6 5 4", False),
        ("<answer>5 4", False),
        ("<answer>5 4 6 1", False),
        ("<answer>0 0 6", False),
        ("<answer>5 4 10", False),
        ("<answer>5 4 six", False),
        ("<answer>1 1 -9", False),
        ("<answer>1 1 9.5", False),
        ("<answer>\u0661 1 9", False),
        (f"<answer>1 1 {'9' * 9000}", False),
        ("<answer>3", False),
        ("", False),
    ],
)
def test_right_is_the_single_highest_score(response: str, right: bool) -> None:
    assert verify(item(best=2, scale=[1, 9], **SHOWN), response).outcome is (Outcome.RIGHT if right else Outcome.WRONG)


@given(st.lists(st.integers(1, 10), min_size=2, max_size=6), st.data())
def test_the_rule_is_that_of_a_sorted_list(scores: list[int], data: st.DataObject) -> None:
    best = data.draw(st.integers(0, len(scores) - 1))
    given = item(candidates=["x"] * len(scores), best=best)  # without a scale 1 to 10
    expected = sorted(scores)[-1] == scores[best] and scores.count(scores[best]) == 1
    assert verify(given, f"<answer>{' '.join(map(str, scores))}").right is expected


@given(st.text(max_size=40))
def test_any_text_is_judged(text: str) -> None:
    assert not verify(item(best=2, scale=[1, 9], **SHOWN), text).failed


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"best": 0}, "data.candidates"),
        ({"candidates": ["a"], "best": 0}, "data.candidates"),
        ({"candidates": ["a", "b"]}, "data.best"),
        ({"candidates": ["a", "b"], "best": 2}, "data.best"),
        ({"candidates": ["a", "b"], "best": True}, "data.best"),
        ({"candidates": ["a", "b"], "best": 0, "scale": [3, 3]}, "data.scale"),
        ({"candidates": ["a", "b"], "best": 0, "scale": "19"}, "data.scale"),
    ],
)
def test_an_item_that_says_not_what_is_best_is_broken(data: dict[str, Any], what: str) -> None:
    verdict = verify(item(**data), "<answer>1 2")
    assert verdict.failed and what in verdict.detail
    with pytest.raises(InputError, match=f"^strategy x: item a has no candidates to be ranked: {what}"):
        ranked_items("strategy x", [item(**data)])


def test_a_ranking_reads_what_the_verifier_reads() -> None:
    ranking = ranking_of(item(best=2, scale=[1, 9], **SHOWN))
    assert ranking.read("<think>ab<answer>5 4 6") == (5, 4, 6) and ranking.read("<answer>5 4") is None
    assert ranking.is_right((10.0, 9.0, 10.5)) and not ranking.is_right((10, 9, 10))
