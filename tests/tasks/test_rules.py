"""Source rules and its demonstrator: by hand, and that acceptance is what the recipe says."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.sources.rules import RULES, apply_rule
from components.tasks.verify import Outcome, verify

ONE = [{"rules": ["reverse"]}]
HIDDEN: dict[str, Any] = {
    "shown": False,
    "accepts": [{"rules": ["reverse"], "weight": 0.8}, {"rules": ["up"], "weight": 0.2}],
}


def items(count: int, seed: int = 0, **config: Any) -> list[Item]:
    request = SourceRequest(seed=seed, limit=1 << 40, scratch=Path("unused"))
    rows = OperatorSpec.model_validate({"name": "rules", **config}).resolve("source")(request).rows
    found = [row for row in islice(rows, count) if isinstance(row, SourceRow)]
    return [
        Item(id=row.where, domain="A", prompt=row.prompt, answer=row.answer, verifier=row.verifier, data=dict(row.data))
        for row in found
    ]


def write(item: Item, seed: int = 0, **config: Any) -> str:
    return OperatorSpec.model_validate({"name": "rule", **config}).resolve("demonstrator")(item, random.Random(seed))


@pytest.mark.parametrize(
    "rule, result",
    [("copy", "abhj"), ("reverse", "jhba"), ("up", "bcia"), ("down", "jagi"), ("rotate", "bhja"), ("mirror", "jica")],
)
def test_rules_by_hand(rule: Any, result: str) -> None:
    assert apply_rule(rule, "abhj", 10) == result


def test_a_shown_rule_is_in_the_prompt_and_its_result_is_the_only_right_answer() -> None:
    for item in items(50, accepts=ONE, min_length=3, max_length=5):
        word = item.data["word"]
        assert item.prompt == f"reverse: {word}" and 3 <= len(word) <= 5
        for rule in RULES:
            verdict = verify(item, f"<answer>{apply_rule(rule, word, 10)}")
            assert verdict.outcome is (Outcome.RIGHT if rule == "reverse" else Outcome.WRONG)


def test_several_rules_may_be_right() -> None:
    for item in items(20, shown=False, accepts=[{"rules": ["up", "mirror"]}]):
        assert item.prompt == f"word: {item.data['word']}"
        right = {rule for rule in RULES if verify(item, write(item, rule=rule)).right}
        assert right == {"up", "mirror"}
        assert {write(item, seed) for seed in range(20)} == {write(item, rule="up"), write(item, rule="mirror")}


def test_hidden_sets_have_their_shares_and_belong_to_the_word() -> None:
    first = items(2000, **HIDDEN)
    counts = Counter(item.data["rules"][0] for item in first)
    assert counts["up"] / 2000 == pytest.approx(0.2, abs=0.03)
    known = {item.data["word"]: item.data["rules"] for item in first}
    again = [item for item in items(2000, seed=1, **HIDDEN) if item.data["word"] in known]
    assert len(again) > 100 and all(item.data["rules"] == known[item.data["word"]] for item in again)


def test_demonstrations_have_marks_and_mistakes_where_asked_for() -> None:
    (item,) = items(1, accepts=ONE)
    right = apply_rule("reverse", item.data["word"], 10)
    assert write(item, rule="reverse", mark=True) == f"R<answer>{right}"
    assert not verify(item, write(item, rule="up")).right
    careless = [write(item, seed, rule="reverse", letter_error_rate=0.5) for seed in range(400)]
    share = sum(verify(item, text).right for text in careless) / 400
    assert share == pytest.approx(0.5**4, abs=0.04)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="min_length 6 is above max_length 4"):
        items(1, accepts=ONE, min_length=6)
    with pytest.raises(InputError, match="a prompt shows one rule"):
        items(1, accepts=[{"rules": ["up", "down"]}])
    with pytest.raises(InputError, match="item B-1 is not of source rules"):
        write(Item(id="B-1", domain="B", prompt="?", answer="x", verifier="exact"))


def test_right_responses_are_listed_on_request_and_nothing_else_changes() -> None:
    plain, listing = (items(20, **HIDDEN, **extra) for extra in ({}, {"list_right": True}))
    for before, item in zip(plain, listing, strict=True):
        listed = item.data.pop("right_responses")
        assert item == before
        assert len(listed) == len(set(listed)) and {f"<answer>{item.answer}", write(item, mark=True)} <= set(listed)
        assert all(verify(item, text).outcome is Outcome.RIGHT for text in listed)
    source = OperatorSpec.model_validate({"name": "rules", **HIDDEN}).resolve("source")
    origin = source(SourceRequest(seed=0, limit=1, scratch=Path("unused"))).origin
    assert "list_right" not in origin["config"]  # a card says what it said before there was the setting
