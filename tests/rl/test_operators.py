"""Samplers, rewards, filters, references and schedules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.rl.batch.batch import RIGHT, WRONG, Batch
from components.rl.step.settings import StepSettings
from tests.rl.build import batch_of, context, near, operator, prompt

# samplers


@given(size=st.integers(1, 12), draws=st.lists(st.integers(1, 15), min_size=1, max_size=8))
def test_epoch_shuffle_shows_every_prompt_once_per_epoch(size: int, draws: list[int]) -> None:
    pool, now = [prompt(index) for index in range(size)], context()
    seen = [index for count in draws for index in operator("sampler", "epoch_shuffle")(pool, count, now)]
    assert len(seen) == sum(draws)
    for start in range(0, len(seen) - size + 1, size):
        assert sorted(seen[start : start + size]) == list(range(size))


def test_epoch_shuffle_goes_on_from_its_memory_and_depends_on_the_seed() -> None:
    pool, sampler = [prompt(index) for index in range(50)], operator("sampler", "epoch_shuffle")
    whole = sampler(pool, 120, context())
    first = context()
    head = sampler(pool, 70, first)
    assert head + sampler(pool, 50, context(memory=dict(first.memory))) == whole
    assert sampler(pool, 120, context(seed=1)) != whole
    assert whole[:50] != whole[50:100]


def test_uniform_draws_without_repeats_within_a_draw() -> None:
    pool, now, sampler = [prompt(index) for index in range(20)], context(), operator("sampler", "uniform")
    draws = [sampler(pool, 10, now) for _ in range(200)]
    assert all(len(set(draw)) == 10 for draw in draws)
    counts = Counter(index for draw in draws for index in draw)
    assert len(counts) == 20 and max(counts.values()) < 2 * min(counts.values())
    assert len(sampler(pool, 30, now)) == 30


# rewards


def test_verifier_reward_maps_outcomes() -> None:
    batch = replace(batch_of([[0.0, 0.0]]), outcomes=torch.tensor([RIGHT, WRONG]))
    assert operator("reward", "verifier")(batch, context()).tolist() == [1.0, 0.0]
    assert operator("reward", "verifier", right=1, wrong=-1)(batch, context()).tolist() == [1.0, -1.0]


def test_overlong_follows_the_three_cases_of_the_paper() -> None:
    # limit 20, cache 4: no punishment to 16, then (16 - length) / 4, -1 at 20
    batch = batch_of([[0.0] * 5], [[1, 16, 17, 18, 20]])
    assert near(operator("reward", "overlong")(batch, context()), [0.0, 0.0, -0.25, -0.5, -1.0])


def test_pattern_reward_searches_across_lines() -> None:
    batch = replace(batch_of([[0.0] * 2]), texts=("<think>1\n2<answer>3", "3"))
    assert operator("reward", "pattern")(batch, context()).tolist() == [1.0, 0.0]
    with pytest.raises(InputError, match="not a regular expression"):
        operator("reward", "pattern", pattern="(")


# filters


def refused(_: int) -> Batch:
    raise AssertionError("nothing is to be refilled")


def supply(*batches: Batch) -> tuple[Callable[[int], Batch], list[int]]:
    asked: list[int] = []
    left = iter(batches)

    def more(count: int) -> Batch:
        asked.append(count)
        return next(left)

    return more, asked


def test_dynamic_sampling_refills_until_the_batch_is_full() -> None:
    more, asked = supply(batch_of([[1.0, 0.0], [0.0, 0.0]]), batch_of([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    start = batch_of([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    kept = operator("filter", "dynamic_sampling")(start, more, context())
    # 1 of 3 kept, 2 missing -> 6, at most a batch of 3; then 2 of 5 kept, 1 missing -> ceil(2.5) = 3
    assert asked == [3, 3]
    assert kept.num_prompts == 3 and not bool(kept.group_is_equal(kept.outcomes).any())


def test_dynamic_sampling_stops_at_its_bound() -> None:
    more, asked = supply(*[batch_of([[0.0, 0.0]])] * 5)
    kept = operator("filter", "dynamic_sampling", max_refills=2)(batch_of([[0.0, 0.0], [1.0, 1.0]]), more, context())
    assert kept.num_responses == 0 and len(asked) == 2


def test_dynamic_sampling_of_a_full_batch_draws_nothing() -> None:
    start = batch_of([[1.0, 0.0], [0.0, 1.0]])
    assert operator("filter", "dynamic_sampling")(start, refused, context()).texts == start.texts


def test_drop_equal_rewards_and_drop_truncated() -> None:
    batch = batch_of([[1.0, 1.0], [1.0, 0.0]])
    assert operator("filter", "drop_equal_rewards")(batch, refused, context()).texts == ("r2", "r3")
    cut = replace(batch, finished=torch.tensor([True, False, False, True]))
    assert operator("filter", "drop_truncated")(cut, refused, context()).texts == ("r0", "r3")


# schedules


def test_anneal_moves_the_temperature_between_its_ends() -> None:
    start = StepSettings(prompts_per_step=4, group_size=2, max_new_tokens=8, temperature=1.2)

    def at(step: int, shape: str) -> float:
        bound = operator("schedule", "anneal", final_temperature=0.8, shape=shape)
        return bound(start, context(step, 5)).temperature

    assert near([at(step, "linear") for step in range(5)], [1.2, 1.1, 1.0, 0.9, 0.8])
    quarter = (1 - math.cos(math.pi / 4)) / 2
    assert near([at(step, "cosine") for step in range(3)], [1.2, 1.2 - 0.4 * quarter, 1.0])
    assert operator("schedule", "constant")(start, context(3, 5)) == start
