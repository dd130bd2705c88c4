"""The agents of a debate about notes: each by hand, and the debate's verdict against that of the verifier."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.verify import verify

NOTE = Item(
    id="n", domain="d", prompt="note: b7 k2 m9", answer="b7 then k2 then m9.", verifier="notes",
    data={"points": ["b7", "k2", "m9"], "max_words": 9, "praise": "so good"},
)  # fmt: skip
Said = dict[str, Any]


def says(request: str, response: object, seed: int = 0, error: float = 0.0, **said: Any) -> str:
    operator = OperatorSpec.model_validate({"name": "note_debate", "error_rate": error}).resolve("demonstrator")
    data = {**NOTE.data, "response": response, "request": request, **said}
    return str(operator(NOTE.model_copy(update={"data": data}), random.Random(seed)))


@pytest.mark.parametrize(
    ("response", "right", "wrong"),
    [
        ("<answer>b7 then k2 and m9.", "b7 k2 m9 whole", "nothing"),
        ("<answer>b7, m9", "b7 m9 whole", "k2"),
        ("<answer>k2 b7 m9", "k2", "b7 m9 whole"),  # what stands first is k2, so b7 is not next and is left over
        ("<answer>b7 k2 m9 m9", "b7 k2 m9", "whole"),
        ("", "whole", "b7 k2 m9"),
    ],
)
def test_the_two_sides_by_hand(response: str, right: str, wrong: str) -> None:
    assert (says("support", response), says("oppose", response)) == (right, wrong)


def test_the_judge_is_strict_and_the_second_look_keeps_what_is_not_contested() -> None:
    good, bad = "<answer>b7 k2 m9", "<answer>b7 m9"
    whole: Said = {"support": "b7 k2 m9 whole", "oppose": "nothing"}
    assert says("decide", bad, **whole) == says("revise", bad, **whole) == "<answer>good"  # by what it is told alone
    contested: Said = {"support": "b7 k2 m9 whole", "oppose": "k2"}
    assert says("decide", good, **contested) == "<answer>bad"
    assert says("revise", good, **contested, verdict="bad") == "<answer>good"
    assert says("revise", bad, **contested, verdict="bad") == "<answer>bad"
    unsaid: Said = {"support": "b7 m9 whole", "oppose": "nothing"}
    assert (says("decide", good, **unsaid), says("revise", good, **unsaid)) == ("<answer>bad", "<answer>good")


@given(st.lists(st.sampled_from(["b7", "k2", "m9", "then", "so", "good"]), max_size=12))
def test_a_careful_debate_ends_as_the_verifier_judges(words: list[str]) -> None:
    response = f"<answer>{' '.join(words)}"
    said: Said = {name: says(name, response) for name in ("support", "oppose")}
    for name in ("decide", "revise"):
        assert (says(name, response, **said) == "<answer>good") == verify(NOTE, response).right


def test_a_second_look_mends_errors_of_the_sides() -> None:
    right = {"decide": 0, "revise": 0}
    for seed in range(300):
        sides = (("support", seed), ("oppose", seed + 1000))
        said: Said = {name: says(name, "<answer>b7 k2 m9", at, 0.1) for name, at in sides}
        for name in right:
            right[name] += says(name, "<answer>b7 k2 m9", seed + 2000, 0.1, **said) == "<answer>good"
    # the judge needs eight aspects seen right; after the second look both or a third one must be wrong about one
    assert right["decide"] / 300 == pytest.approx(0.9**8, abs=0.08)
    assert right["revise"] / 300 == pytest.approx((0.81 + 0.18 * 0.9) ** 4, abs=0.06)


@pytest.mark.parametrize(("request_", "response"), [("support", None), ("decide", 7), ("plead", "<answer>b7")])
def test_what_is_no_debate_is_told_in_a_line(request_: str, response: object) -> None:
    with pytest.raises(InputError, match=r"has no note to debate|has no part 'plead'"):
        says(request_, response)
