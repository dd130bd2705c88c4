"""Pairs by a debate: who is told what, by hand, and agents that say anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.synthesize.made import Dropped, Made
from components.synthesize.slots import GENERATOR
from components.synthesize.writers import Writers
from components.tasks.item import Item
from tests.synthesize.scripted import CONTEXT, Scripted, item, scripted

ASKED = item("a", "say b7 k2", "b7 k2")
Agent = Callable[[Item, int], str | None]
FINAL = {"fine": "good", "fair": "bad", "poor": "bad", "kept": "good"}
"""Response -> what the last agent says."""


def agent(asked: Item, _: int) -> str | None:
    said = str(asked.data["response"])
    if asked.data["request"] in ("support", "oppose"):
        return f"{asked.data['request']}s {said}"
    if asked.data["request"] == "decide":
        return "<answer>good" if said == "fair" else "<answer>bad"
    return f"I look again <answer>{FINAL[said]}"


def made(
    texts: Sequence[str | None], judge: Agent = agent, pool: Sequence[Item] = (ASKED,), seed: int = 3, **config: Any
) -> tuple[list[Made | Dropped], Writers]:
    generator = OperatorSpec.model_validate({"name": "debated_pairs", "num_samples": len(texts), **config})
    writers = scripted(lambda asked, number: texts[number], judge)
    return list(generator.resolve(GENERATOR)([ASKED], writers, replace(CONTEXT, pool=pool, seed=seed))), writers


def pairs(rows: Sequence[Made | Dropped]) -> list[tuple[str, str]]:
    return [(row.extras["chosen"], row.extras["rejected"]) for row in rows if isinstance(row, Made)]


def reasons(rows: Sequence[Made | Dropped]) -> dict[str, int]:
    return dict(Counter(row.reason for row in rows if isinstance(row, Dropped)))


def test_the_last_word_is_the_label() -> None:
    rows, _ = made(["fair", "fine", "poor", None, "fine", "kept"], max_per_prompt=2)
    assert [sorted(side) for side in zip(*pairs(rows), strict=True)] == [["fine", "kept"], ["fair", "poor"]]
    assert reasons(rows) == {"refused": 1, "repeated": 1}
    rows, _ = made(["fair", "fine", "poor", "kept"])
    assert len(pairs(rows)) == 1 and reasons(rows) == {"over_cap": 2}
    rows, _ = made(["fair", "poor"])
    assert pairs(rows) == [] and reasons(rows) == {"no_contrast": 2}


def test_which_responses_are_paired_is_drawn() -> None:
    drawn = {pairs(made(["fair", "fine", "poor", "kept"], seed=seed)[0])[0] for seed in range(30)}
    assert drawn == {(better, worse) for better in ("fine", "kept") for worse in ("fair", "poor")}
    assert made(["fair", "fine", "poor", "kept"], seed=5)[0] == made(["fair", "fine", "poor", "kept"], seed=5)[0]


def test_each_agent_is_told_what_was_said_before() -> None:
    near, far = item("c", "say b7 m9", "b7 m9"), item("d", "write x", "x")
    _, writers = made(["fine"], pool=[ASKED, far, near])
    (judge,) = writers.judges
    assert isinstance(judge, Scripted)
    told = [prompt for prompt, _ in judge.asked]
    assert len(told) == 4 and all(
        "say b7 m9\nA good response: b7 m9" in text and "write x" not in text for text in told
    )
    assert "supports fine" not in told[1], "one side does not hear the other"
    assert "What is good about it: supports fine" in told[2] and "What is not: opposes fine" in told[2]
    assert "It was found bad." in told[3] and "It was found" not in told[2]
    _, writers = made(["fine"], shown=0)
    assert isinstance(writers.judges[0], Scripted) and "A good response" not in writers.judges[0].asked[0][0]


@pytest.mark.parametrize("mute", ["decide", "revise"])
@pytest.mark.parametrize("said", [None, "", "cut...", "<answer>great", "good or bad"])
def test_a_verdict_that_cannot_be_read_is_none(mute: str, said: str | None) -> None:
    def judge(asked: Item, number: int) -> str | None:
        return said if asked.data["request"] == mute and asked.data["response"] == "fine" else agent(asked, number)

    rows, _ = made(["fine", "fair"], judge)
    assert pairs(rows) == [] and reasons(rows) == {"unjudged": 1, "no_contrast": 1}


def test_advocates_without_a_word_do_not_stop_the_debate() -> None:
    def judge(asked: Item, number: int) -> str | None:
        return None if asked.data["request"] == "support" else agent(asked, number)

    rows, _ = made(["fine", "fair"], judge)
    assert pairs(rows) == [("fine", "fair")]


def test_control_marks_and_templates_in_texts_stay_text() -> None:
    def judge(asked: Item, number: int) -> str:
        return {"support": "</s> {oppose}", "oppose": "no"}.get(str(asked.data["request"]), "<answer>good")

    _, writers = made(["{verdict} <|eos|>"], judge)
    assert isinstance(writers.judges[0], Scripted)
    told = writers.judges[0].asked[-1][0]
    assert "{verdict}" in told and "{oppose}" in told and "<|eos|>" not in told and "</s>" not in told


@given(st.dictionaries(st.sampled_from("uvwxyz"), st.booleans(), min_size=1))
def test_every_pair_is_a_good_one_before_a_bad_one(labels: dict[str, bool]) -> None:
    def judge(asked: Item, number: int) -> str:
        return f"<answer>{'good' if labels[str(asked.data['response'])] else 'bad'}"

    rows, _ = made(list(labels), judge, max_per_prompt=9)
    found = pairs(rows)
    assert all(labels[better] and not labels[worse] for better, worse in found)
    assert len(found) == min(sum(labels.values()), len(labels) - sum(labels.values()))
    assert len({text for pair in found for text in pair}) == 2 * len(found)
    assert 2 * len(found) + sum(reasons(rows).values()) == len(labels)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"support": "{prompt}"}, r"support: the template lacks \{response\}"),
        ({"decide": "{prompt} {response} {support}"}, r"decide: the template lacks \{oppose\}"),
        ({"revise": "{prompt} {response} {support} {oppose}"}, r"revise: the template lacks \{verdict\}"),
        ({"oppose": "{prompt} {response} {support}"}, r"oppose: nothing fills \{support\}"),
    ],
)
def test_templates_that_tell_too_little_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, InputError), match=message):
        made(["x"], **bad)
