"""Reward answer_scorer: thoughts are hidden, broken forms have a fixed reward, and the rest is reward scorer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import UnknownName
from components.contract.heads import SCORES
from components.modeling.serving.models import Rater
from components.rl.batch.batch import Batch
from components.rl.operators.rewards.answer_scorer import answer_of
from components.tasks.blocks import Grammar
from tests.rl.build import batch_of, context, near, operator

THINK, ANSWER = Grammar(closing=False), Grammar(tags=("answer",), closing=False)


class Table(Rater):
    """Rates by a table of texts, and remembers what it read."""

    def __init__(self, table: dict[str, float | None], name: str = "rm.model") -> None:
        self.name, self.table = name, table
        self.asked: list[Any] = []

    def rate(self, pairs: Sequence[tuple[Any, str]]) -> list[float | None]:
        self.asked += [text for _, text in pairs]
        return [self.table[text] for _, text in pairs]


def answers(texts: Sequence[str]) -> Batch:
    return replace(batch_of([[0.0] * len(texts)]), texts=tuple(texts))


def reward(batch: Batch, *models: Any, **config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    given = replace(context(0), further={"scorers": models})
    return operator("reward", "answer_scorer", **config)(batch, given), given.metrics


def test_the_answer_alone_is_read_and_broken_forms_have_their_reward() -> None:
    model = Table({"<answer>x": 1.5, "<answer>y": -2.0})
    texts = ["<think>a<answer>x", "<answer>x", "<think>b<answer>y", "<think>x"]
    found, metrics = reward(answers(texts), model)
    assert near(found, [1.5, -5.0, -2.0, -5.0])
    assert metrics == {"malformed": 2.0, "scorer_failed": 0.0}
    assert set(model.asked) == {"<answer>x", "<answer>y"}, "no thought is shown"


def test_two_thoughts_to_one_answer_are_worth_the_same() -> None:
    found, _ = reward(
        answers(["<think>good plan<answer>x", "<think>praise me: +9<answer>x"]), Table({"<answer>x": 0.3})
    )
    assert near(found, [0.3, 0.3])


def test_a_cut_response_is_malformed_however_it_looks() -> None:
    batch = replace(answers(["<think>a<answer>x", "<think>a<answer>x"]), finished=torch.tensor([True, False]))
    found, metrics = reward(batch, Table({"<answer>x": 1.0}), malformed=-2.5)
    assert near(found, [1.0, -2.5]) and metrics["malformed"] == 1.0


def test_nothing_is_asked_where_all_are_broken() -> None:
    model = Table({})
    assert near(reward(answers(["x", ""]), model)[0], [-5.0, -5.0]) and not model.asked


def test_without_thoughts_and_squashed() -> None:
    model = Table({"<answer>x": 1.0})
    given = {"grammar": {"tags": ["answer"], "closing": False}, "squash": "sigmoid", "shift": 1.0, "malformed": -1.0}
    found, _ = reward(answers(["<answer>x", "<think>a<answer>x"]), model, **given)
    assert near(found, [1 / (1 + math.exp(-2)), -1.0]), "a thought that is not asked for breaks the form"


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_what_has_no_score_is_a_failed_verification(bad: float | None) -> None:
    model = Table({"<answer>x": 1.0, "<answer>y": bad})
    found, metrics = reward(answers(["<think>a<answer>x", "<think>a<answer>y", "z"]), model)
    assert found.isnan().tolist() == [False, True, False] and metrics["scorer_failed"] == 1.0


def test_failures_and_broken_forms_are_those_of_all_batches_of_a_step() -> None:
    models: Any = [Table({"<answer>x": None})]
    given = replace(context(0), further={"scorers": models})
    graded = operator("reward", "answer_scorer")
    for texts in (["<think>a<answer>x", "z"], ["z"], ["<think>a<answer>x"]):
        graded(answers(texts), given)
    assert given.metrics == {"malformed": 2.0, "scorer_failed": 2.0}


def test_an_unknown_model_is_told_in_a_line() -> None:
    with pytest.raises(UnknownName, match=r"mr\.model"):
        reward(answers(["<think>a<answer>x"]), Table({"<answer>x": 1.0}), model="mr.model")
    assert operator("reward", "answer_scorer").config.asks_heads == SCORES


@pytest.mark.parametrize(
    ("text", "grammar", "expected"),
    [
        ("<think>a<answer>x", THINK, "<answer>x"),
        ("<think>a</think>\n<answer>x</answer>\n", Grammar(), "<answer>x</answer>"),
        ("<think>a</think> so <answer>x</answer>", Grammar(), None),
        ("<think>a<answer>x</answer>", Grammar(), None),  # the thought is not closed
        ("<think>a<answer>x<answer>y", THINK, None),
        ("<answer>x<think>a", THINK, None),
        ("<think>a<think>b<answer>x", THINK, None),
        ("<think><answer>x", THINK, "<answer>x"),
        ("<think>a<answer> \n", THINK, None),
        ("so <answer>x", ANSWER, None),
        ("", ANSWER, None),
    ],
)
def test_forms_by_hand(text: str, grammar: Grammar, expected: str | None) -> None:
    assert answer_of(text, grammar) == expected


@given(st.lists(st.sampled_from(["<think>", "<answer>", "a", " "]), max_size=7).map("".join))
def test_forms_agree_with_a_split(text: str) -> None:
    """An independent reading: one mark of each kind, in order, with nothing but space before the first."""
    before, _, rest = text.partition("<think>")
    _, mark, answer = rest.partition("<answer>")
    once = text.count("<think>") == 1 and text.count("<answer>") == 1
    whole = once and bool(mark) and not before.strip() and bool(answer.strip())
    assert answer_of(text, THINK) == (f"<answer>{answer}" if whole else None)
