"""Factual support by hand: which facts count, and that only wrong answers are consoled."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, operator

STORE = ["1:a", "2:b", "3:c", "4:d"]


def rows(texts: list[str], scores: list[float]) -> tuple[Batch, Any]:
    """One group whose responses are these texts, right where the score is 1."""
    batch = batch_of([[float(score == 1) for score in scores]])
    item = batch.prompts[0].item.model_copy(update={"data": {"facts": STORE}})
    batch = replace(batch, texts=tuple(texts), prompts=(replace(batch.prompts[0], item=item),))
    collector = SimpleNamespace(scores=lambda given: torch.tensor(scores))
    return batch, context(collector=collector)


def support(texts: list[str], scores: list[float], **config: Any) -> list[float]:
    batch, now = rows(texts, scores)
    return [round(value, 6) for value in operator("reward", "fact_support", **config)(batch, now).tolist()]


def test_only_wrong_answers_that_do_not_refuse_are_consoled() -> None:
    texts = ["<think>1:a 2:b<answer>x"] * 3
    assert support(texts, [0, 2 / 3, 1], gamma=0) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "thought, share",
    [("1:a 2:x", 1 / 2), ("1:a 1:a 1:a 2:x", 1 / 2), ("no fact", 0.0), ("", 0.0), ("1:a 2:b 3:c 4:e", 3 / 4)],
)
def test_shares_by_hand(thought: str, share: float) -> None:
    text = f"<think>{thought}<answer>1:a 4:d"  # facts of the answer are not the thought's
    assert support([text], [0], gamma=0) == [pytest.approx(share)]
    stated = len(set(thought.split())) if share else 1
    penalty = math.exp(1 - 10 / stated)
    assert support([text], [0]) == [pytest.approx(share * penalty, abs=1e-6)]


def test_more_facts_than_gamma_cost_nothing() -> None:
    assert support(["<think>1:a 2:b 3:z<answer>x"], [0], gamma=2) == [pytest.approx(2 / 3, abs=1e-6)]
    assert support(["<think>1:a 2:b<answer>x"], [0], gamma=2) == [1.0]


def test_numbers_of_supported_facts_are_bounded_by_the_norm() -> None:
    texts = ["<think>1:a 2:b 9:z<answer>x", "<think>1:a 2:b 3:c 4:d<answer>x"]
    assert support(texts, [0, 0], counted="number", norm=3) == [pytest.approx(2 / 3, abs=1e-6), 1.0]


def test_a_response_without_a_thought_or_an_item_without_a_store_has_no_support() -> None:
    assert support(["1:a 2:b", "<answer>1:a"], [0, 0], gamma=0) == [0.0, 0.0]
    batch, now = rows(["<think>1:a<answer>x"], [0])
    bare = batch.prompts[0].item.model_copy(update={"data": {}})
    batch = replace(batch, prompts=(replace(batch.prompts[0], item=bare),))
    assert operator("reward", "fact_support")(batch, now).tolist() == [0.0]
