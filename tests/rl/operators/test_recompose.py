"""RoRecomp: what comes first, what waits, and when it follows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.rl.batch.batch import RIGHT, WRONG, Batch
from components.rl.operators.replays.recompose import RecomposeConfig, priority, probability
from tests.rl.build import batch_of, context, operator, prompt

POOL = [prompt(index) for index in range(9)]


def test_the_shortest_right_and_the_longest_wrong_come_first() -> None:
    batch = batch_of([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]], [[3, 1, 2, 6], [4, 2, 5, 1]])
    # right: 3 1 4 2 -> 1 and 2; wrong: 2 6 5 1 -> 6 and 5
    assert priority(batch, 0.5).tolist() == [False, True, False, True, False, True, True, False]
    assert priority(batch, 1.0).tolist() == [True] * 8


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=1, max_size=12), st.sampled_from([0.25, 0.5, 1.0])
)
def test_priority_equals_sorting_by_hand(rows: list[tuple[bool, int]], share: float) -> None:
    batch = batch_of([[float(right) for right, _ in rows]], [[length for _, length in rows]])
    expected = set()
    for wanted, sign in ((True, 1), (False, -1)):
        own = sorted(
            (index for index, (right, _) in enumerate(rows) if right == wanted), key=lambda i: (sign * rows[i][1], i)
        )
        expected |= set(own[: round(share * len(own))])
    assert set(priority(batch, share).nonzero().flatten().tolist()) == expected


def recompose(batch: Batch, memory: dict[str, Any], step: int = 0, **config: float) -> list[Batch]:
    now = context(step, memory=memory, pool=POOL)
    found = operator("replay", "recompose", **config)(batch, now)
    memory.update(json.loads(json.dumps(memory)))  # what a resumed run has
    return list(found)


def with_advantages(seed: int) -> Batch:
    batch = batch_of([[1.0, 0.0, 1.0, 0.0]] * 2, [[1, 2, 3, 4], [4, 3, 2, 1]], seed=seed)
    return batch.with_advantages(torch.randn(8, generator=torch.Generator().manual_seed(seed)))


def test_what_is_left_out_comes_back_once_a_batch_is_full() -> None:
    memory: dict[str, Any] = {}
    first, second, third = (with_advantages(seed) for seed in range(3))
    certain = {"first_probability": 1.0, "last_probability": 1.0}
    (head,) = recompose(first, memory, 0, **certain)
    assert head.num_responses == 4 and len(memory["buffer"]["texts"]) == 4
    head, late = recompose(second, memory, 1, **certain)
    assert head.num_responses == 4 and late.num_responses == 8 and "buffer" not in memory
    left = [batch.select(~priority(batch, 0.5)) for batch in (first, second)]
    for name in ("tokens", "old_logprobs", "advantages"):  # as they were: old log-probabilities, advantages of groups
        assert torch.equal(vars(late)[name], torch.cat([vars(part)[name] for part in left]))
    assert len(recompose(third, memory, 2, **certain)) == 1


def test_without_a_compensation_update_the_newest_stay() -> None:
    memory: dict[str, Any] = {}
    never = {"first_probability": 0.0, "last_probability": 0.0}
    for step in range(5):
        assert len(recompose(with_advantages(step), memory, step, **never)) == 1
    newest = [batch.select(~priority(batch, 0.5)) for batch in (with_advantages(3), with_advantages(4))]
    assert memory["buffer"]["tensors"]["tokens"]["values"] == torch.cat([part.tokens for part in newest]).tolist()


def test_a_share_of_one_is_the_method_below() -> None:
    memory: dict[str, Any] = {}
    batch = with_advantages(0)
    (only,) = recompose(batch, memory, share=1.0)
    assert torch.equal(only.tokens, batch.tokens) and only.texts == batch.texts and memory == {}


def test_the_probability_falls_along_a_cosine() -> None:
    config = RecomposeConfig()
    values = [probability(context(step, 5), config) for step in range(5)]
    by_hand = [0.2 + 0.8 * (1 + math.cos(math.pi * step / 4)) / 2 for step in range(5)]
    assert values == pytest.approx(by_hand) and (values[0], values[-1]) == (1.0, pytest.approx(0.2))


def test_how_often_compensation_comes_is_that_probability() -> None:
    made = 0
    for seed in range(120):
        memory: dict[str, Any] = {}
        config = {"first_probability": 0.3, "last_probability": 0.3}
        for step in (0, 1):
            now = context(step, seed=seed, memory=memory, pool=POOL)
            found = operator("replay", "recompose", **config)(with_advantages(step), now)
        made += len(found) == 2
    assert abs(made / 120 - 0.3) < 0.12


def test_a_batch_without_right_or_without_any_responses() -> None:
    batch = replace(batch_of([[0.0, 0.0]]), outcomes=torch.tensor([WRONG, WRONG]))
    assert priority(batch, 0.5).sum() == 1 and RIGHT not in batch.outcomes.tolist()
    (only,) = recompose(batch.first_groups(0), {})
    assert only.num_responses == 0
