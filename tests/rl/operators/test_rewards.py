"""Generic rewards: values worked by hand, and text that tries to break them."""

from __future__ import annotations

import difflib
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.rl.batch.batch import RIGHT, UNSCORED, WRONG, Batch, Prompt
from components.rl.params import RLParams
from components.tasks.item import Item
from tests.rl.build import batch_of, context, near, operator
from tests.rl.trajectories import conversations, single_rows

CALIBRATED = {"confidence": {"tag": "conf", "scale": 10}}


def answers(texts: list[str], answer: str = "", lengths: list[int] | None = None, **data: Any) -> Batch:
    """Return one group of responses to an item with an answer."""
    item = Item(id="a", domain="A", prompt="?", answer=answer, verifier="exact", data=data)
    made = batch_of([[0.0] * len(texts)], [lengths or [2] * len(texts)])
    return replace(made, prompts=(Prompt(item, (1,)),), texts=tuple(texts))


def reward(name: str, batch: Batch, step: int = 0, **config: Any) -> torch.Tensor:
    return operator("reward", name, **config)(batch, context(step))


def test_tag_order() -> None:
    texts = [
        "<think>a</think> <answer>1</answer>",
        "<answer>1</answer><think>a</think>",
        "<think>a</think>",
        "so <think>a</think><answer>1</answer>",
        "<think>a</think><think>b</think><answer>1</answer>",
        "<think>a</think><answer>1",
        "",
    ]
    assert reward("tag_order", answers(texts)).tolist() == [1, 0, 0, 0, 0, 0, 0]
    graded = reward("tag_order", answers(texts), partial=True, alone=False)
    assert near(graded, [1, 0.5, 0.5, 1, 2 / 3, 0.5, 0])
    open_end = {"tags": ["think", "answer"], "closing": False}
    assert reward("tag_order", answers(["<think>a<answer>1", texts[0]]), grammar=open_end).tolist() == [1, 1]


def test_group_length_prefers_short_right_responses() -> None:
    # lengths 2, 4, 6 of one group: right .5, 0, -.5; wrong: at most 0
    batch = answers(["a", "b", "c", "d"], lengths=[2, 4, 6, 2])
    batch = replace(batch, outcomes=torch.tensor([RIGHT, RIGHT, RIGHT, WRONG]))
    assert near(reward("group_length", batch), [0.5, 0.0, -0.5, 0.0])
    assert near(reward("group_length", answers(["a", "b"], lengths=[3, 3])), [0.0, 0.0])
    assert near(reward("group_length", batch, shift=0.25), [0.25, -0.25, -0.75, 0.0])


def test_diff_similarity_is_difflibs_ratio() -> None:
    # "abcd" and "bcde" share "bcd": 2 * 3 / 8
    batch = answers(["<answer>bcde", "<answer>abcd", "xyz", "x" * 30], "abcd")
    assert near(reward("diff_similarity", batch, max_chars=20), [0.75, 1.0, 0.0, -1.0])
    tagged = answers(["<patch>bcde</patch>", "bcde"], "abcd")
    assert near(reward("diff_similarity", tagged, tag="patch"), [0.75, -1.0])


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30))
def test_diff_similarity_agrees_with_the_library(expected: str, given_text: str) -> None:
    found = reward("diff_similarity", answers([f"<answer>{given_text}"], expected))
    ratio = difflib.SequenceMatcher(None, expected.strip(), given_text.strip(), autojunk=False).ratio()
    assert near(found, [ratio])


def test_diff_similarity_of_edits_compares_the_diffs_that_they_make() -> None:
    data = {"text": "a o++\nb s+", "fixed": "a o++\nb s-", "style": "diff"}
    texts = [
        "<answer>-b s+\n+b s-",  # the reference's diff
        "<answer>-b s+\n+b s*",  # "-b s+\n+b s*" of "-b s+\n+b s-": 10 of 11 characters in both
        "<answer>b s-",  # no edit
        "<answer>-c s+\n+c s-",  # of a line that is not there
        "<answer>-a o++\n+a o--",  # another line: as difflib counts the two diffs
    ]
    other = difflib.SequenceMatcher(None, "-b s+\n+b s-", "-a o++\n+a o--", autojunk=False).ratio()
    batch = answers(texts, "-b s+\n+b s-", **data)
    assert near(reward("diff_similarity", batch, edits=True), [1.0, 10 / 11, -1.0, -1.0, other])
    with pytest.raises(InputError, match="is not about edits"):
        reward("diff_similarity", answers(["<answer>-a\n+b"], "x"), edits=True)


def test_table_overlap_is_the_f1_of_cells() -> None:
    expected = "| name | age | city |\n|---|:--:|---|\n| Ann | 30 | Bonn |\n| Bob | 41 | Kiel |"
    texts = [
        expected,
        "name | city | age\nbob | Kiel | 41\nann | Bonn | 30",
        "name | age | city\nAnn | 30 | Rome",  # 1 of 2 given, 1 of 4 wanted: 2 * 1 / 6
        "no table",
        "name | age\n",
    ]
    assert near(reward("table_overlap", answers(texts, expected)), [1, 1, 1 / 3, 0, 0])


def test_exact_set() -> None:
    batch = answers(["<answer>B, a", "<answer>a", "<answer>a,b,c,d", "<answer>"], "a,b,b")
    assert reward("exact_set", batch).tolist() == [1, 0, 0, 0]
    assert near(reward("exact_set", batch, score="f1"), [1, 2 / 3, 2 / 3, 0])
    assert near(reward("exact_set", batch, score="jaccard"), [1, 0.5, 0.5, 0])


def test_sound_text_at_each_bound() -> None:
    texts = ["a proof", "", "x" * 20, "x" * 19 + " ", "a b" * 200, "a b" * 201, "a User: b", "the reasoning process"]
    texts += ["the reasoning process " + "is long enough " * 5, "y\n" * 400]
    # 1 blank in 20 is just enough; 600 characters of 3 are 200 for each, 603 are more; 800 of 2 are 400
    assert reward("sound_text", answers(texts), max_repetition=200).tolist() == [1, 0, 0, 1, 1, 0, 0, 0, 1, 0]
    released = [1, 0, 0, 1, 1, 1, 0, 0, 1, 0]
    assert reward("sound_text", answers(texts)).tolist() == released
    free = {"min_blank": 0, "echoes": [], "short_echoes": [], "max_repetition": 1e9}
    assert reward("sound_text", answers(texts), **free).tolist() == [1, 0] + [1] * 8


@given(st.text(max_size=300))
def test_sound_text_reads_any_text(text: str) -> None:
    (found,) = reward("sound_text", answers([text])).tolist()
    counts = {sign: text.count(sign) for sign in set(text)}
    blank = counts.get(" ", 0) + counts.get("\n", 0)
    echo = any(mark in text for mark in ("User:", "Assistant:", "reasoning process"))
    assert found == (bool(text) and not echo and 20 * blank >= len(text))


def test_keyword_order_punishes_stuffing_and_disorder() -> None:
    points = [[["red", "green"]], [["sun"], ["star", "moon"]]]
    texts = [
        "red then green, the sun",
        "green then red, a star and a moon",  # order: LCS 1 of 2; second alternative is not in the reference
        "red red red green and sun",  # LCS 2 of 4
        "nothing",
    ]
    batch = answers(texts, "red and green under the sun", keywords=points)
    assert near(reward("keyword_order", batch), [1.0, 0.25, 0.75, 0.0])
    with pytest.raises(InputError, match=r"data\.keywords of a is no list of key points"):
        reward("keyword_order", answers(["x"], "y", keywords=[["red"]]))


def test_repetition() -> None:
    # "a b a b a": sequences of 2: ab ba ab ba -> 2 of 4 distinct
    batch = answers(["a b a b a", "a b c d", "a", ""])
    assert near(reward("repetition", batch, words=2), [-0.5, 0, 0, 0])
    assert near(reward("repetition", batch, words=2, worst=-2), [-1.0, 0, 0, 0])
    assert reward("repetition", answers(["a b a b a", "a b a"]), words=2, times=2).tolist() == [-1, 0]


def test_brier_beside_the_verifier_is_rlcr() -> None:
    texts = ["<conf>7", "<conf>10", "<conf>10", "<conf>0", "<conf>11", "no", "<conf>7 or 9"]
    right = [RIGHT, RIGHT, WRONG, WRONG, RIGHT, WRONG, RIGHT]
    batch = replace(answers(texts), outcomes=torch.tensor(right))
    now = context()
    part = operator("reward", "brier", **CALIBRATED)(batch, now)
    assert near(part, [-0.09, 0.0, -1.0, 0.0, -1.0, -1.0, -1.0])
    whole = part + operator("reward", "verifier")(batch, now)
    for value, (text, outcome) in zip(whole.tolist()[:4], zip(texts, right, strict=False), strict=False):
        c, q = float(outcome == RIGHT), float(text.removeprefix("<conf>")) / 10
        assert value == pytest.approx(c - (q - c) ** 2)
    assert now.metrics == {"confidence_invalid": pytest.approx(3 / 7), "confidence": pytest.approx(2.7 / 4)}
    unknown = replace(batch, outcomes=torch.full((7,), UNSCORED))
    assert bool(operator("reward", "brier", **CALIBRATED)(unknown, now).isnan().all())


@given(st.integers(0, 10))
def test_brier_is_largest_in_expectation_at_the_chance_of_being_right(chance: int) -> None:
    texts = [f"<conf>{stated}" for stated in range(11)]
    score = {}
    for outcome in (RIGHT, WRONG):
        batch = replace(answers(texts), outcomes=torch.full((11,), outcome))
        score[outcome] = reward("brier", batch, **CALIBRATED).double()
    expected = chance / 10 * score[RIGHT] + (1 - chance / 10) * score[WRONG]
    assert int(expected.argmax()) == chance


def test_mixed_gives_each_domain_its_own_reward() -> None:
    made = batch_of([[1.0, 0.0], [1.0, 0.0]])
    prompts = (made.prompts[0], replace(made.prompts[1], item=made.prompts[1].item.model_copy(update={"domain": "B"})))
    batch = replace(made, prompts=prompts, texts=("x", "xx", "yy", "x"))
    by = {"A": {"name": "pattern", "pattern": "xx", "weight": 3}, "B": "verifier"}
    assert reward("mixed", batch, by=by).tolist() == [0, 3, 1, 0]
    assert reward("mixed", batch, by={"A": by["A"]}, default="verifier").tolist() == [0, 3, 1, 0]
    with pytest.raises(InputError, match="domain 'B' has no reward"):
        reward("mixed", batch, by={"A": "verifier"})


def test_fade() -> None:
    batch = batch_of([[1.0, 0.0]])
    values = [reward("fade", batch, step, reward="verifier", first=1, last=0.2).tolist()[0] for step in (0, 3, 9, 20)]
    assert near(values, [1.0, 1 - 0.8 / 3, 0.2, 0.2])
    half = reward("fade", batch, 2, reward={"name": "verifier", "weight": 4}, steps=4, shape="cosine").tolist()[0]
    assert half == pytest.approx(4 * (1 - (1 - math.cos(math.pi / 2)) / 2))


def test_the_last_turn_counts_for_all_rows_of_a_trajectory() -> None:
    whole = replace(conversations([[1, 0]], [[[(0, 2), (1, 2)], [(0, 1), (2, 3)]]]), texts=("a a a", "b"))
    rows = single_rows(whole)
    rows = replace(rows, texts=("?", "a a a", "? ?", "b"))
    assert near(reward("repetition", rows, words=1), [-2 / 3, -2 / 3, 0, 0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rewards": [{"name": "mixed", "by": {"A": "verifyer"}}]}, "did you mean 'verifier'?"),
        ({"rewards": [{"name": "fade", "reward": {"name": "pattern", "pattern": "("}}]}, "not a regular expression"),
        ({"rewards": [{"name": "tag_order", "grammar": {"tags": ["<a>"]}}]}, "grammar"),
        ({"rewards": [{"name": "fade", "reward": "verifier"}], "labels": "ignored"}, "'verifier' reads outcomes"),
        ({"rewards": [{"name": "exact_set"}], "labels": "ignored"}, "'exact_set' reads answers"),
        ({"rewards": [{"name": "brier", "confidence": {"scale": 0}}]}, "greater than 0"),
    ],
)
def test_bad_settings_are_a_line_at_load_time(given: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, InputError)) as caught:
        RLParams.model_validate({"method": "dr-grpo"} | given)
    assert said in str(caught.value)


def test_exploration_pays_for_steps_that_differ() -> None:
    texts = [
        "<think>1+2=3 no 1*2=2<answer>1*2",  # two tries: 1 - 1/4
        "<think>1+2=3<answer>1+2",
        "<think>1+2=3 no 1+2=3<answer>1+2",  # the same again
        "<think>1+2=3 no 1*2=2",  # no answer
        "<think>1+2=3 no 1*2=2<answer>",
        "<answer>3",  # no try
        "<think>a no A no b<answer>3",
        "<think>a no no b no c no<answer>3",  # empty parts are no tries
    ]
    tries = {"separator": r"\bno\b"}
    assert near(reward("exploration", answers(texts), **tries), [0.75, 0.5, 0, 0, 0, 0, 0, 0.875])
    assert near(reward("exploration", answers(texts), **tries, most=3), [2 / 3, 1 / 3, 0, 0, 0, 0, 0, 1])
    assert near(reward("exploration", answers(texts[:2]), **tries, scale=2), [0.5, 1 - 0.5**0.5])


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6), st.floats(0.1, 0.9))
def test_exploration_grows_with_distinct_steps_and_saturates(steps: list[str], ratio: float) -> None:
    (found,) = reward("exploration", answers(["\n".join(steps) + "<answer>1"]), ratio=ratio).tolist()
    left = 1.0
    for _ in steps:
        left *= ratio
    assert near(torch.tensor([found]), [0.0 if len(set(steps)) < len(steps) else 1 - left])
