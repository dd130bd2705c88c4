"""Samplers by difficulty: pairs of rare events, the adaptive curriculum, the window of angles."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.rl.batch.batch import RIGHT, WRONG
from components.rl.curricula.angles import angle_concentration, question_span
from components.rl.curricula.first_rates import first_rates
from components.rl.operators.samplers.angle_window import AngleWindowConfig, draw_window, next_centre
from components.rl.step.ledger import PassRates
from tests.rl.build import batch_of, context, near, operator, prompt
from tests.rl.operators.test_progress_samplers import KnownRates


def rates_of(rates: Sequence[float], ledger: PassRates) -> KnownRates:
    return KnownRates(lambda one: rates[int(one.item.id[1:])], ledger)


# pass rates before training


def test_first_rates_prefer_the_ledger_that_came_and_do_not_move() -> None:
    totals = [{"prompt_id": "p0", "domain": "A", "num_samples": 4, "num_right": 1, "num_wrong": 3, "num_failed": 0}]
    ledger = PassRates(totals)
    ids = ["p0", "p1", "p2"]
    assert first_rates(ledger, ids) == [0.25, None, None]
    ledger.add("p0", "A", right=8)
    ledger.add("p1", "A", right=1, wrong=1)
    ledger.step = 3
    ledger.add("p1", "A", right=9)
    ledger.add("p2", "A", failed=2)
    assert first_rates(ledger, ids) == [0.25, 0.5, None]


# pairs


def test_pairs_come_from_the_two_pools_in_turn() -> None:
    rates = [0.0, 0.125, 0.25, 0.5, 0.75, 0.875, 1.0]
    pool, ledger, memory = [prompt(index) for index in range(7)], PassRates(), {}
    sampler = operator("sampler", "rare_pairs", num_samples=8)
    drawn = []
    for step in range(6):
        now = context(step, ledger=ledger, memory=memory, collector=rates_of(rates, ledger))
        ledger.step = step
        drawn += sampler(pool, 2, now)
    assert set(drawn[::2]) == {1, 2} and set(drawn[1::2]) == {4, 5}
    assert all(sorted(drawn[start : start + 4 : 2]) == [1, 2] for start in range(0, 12, 4))  # each once per round
    assert sum(entry.num_samples for entry in ledger) == 7 * 8  # measured once


def test_an_empty_pool_of_pairs_takes_the_extreme_prompts_and_says_so() -> None:
    pool, ledger = [prompt(index) for index in range(3)], PassRates()
    now = context(ledger=ledger, collector=rates_of([0.0, 0.5, 0.875], ledger))
    assert set(operator("sampler", "rare_pairs", num_samples=8)(pool, 6, now)[::2]) == {0}
    assert now.metrics == {"num_hard": 0.0, "num_easy": 1.0}
    with pytest.raises(InputError, match="low < high"):
        operator("sampler", "rare_pairs", low=0.5, high=0.5)


def test_highest_variance_takes_rates_near_one_half() -> None:
    rates = [0.0, 0.125, 0.5, 0.625, 1.0]
    pool, ledger, memory = [prompt(index) for index in range(5)], PassRates(), {}
    sampler = operator("sampler", "highest_variance", num_samples=8, top=2)
    drawn = [
        index
        for _ in range(4)
        for index in sampler(pool, 2, context(ledger=ledger, memory=memory, collector=rates_of(rates, ledger)))
    ]
    assert Counter(drawn) == {2: 4, 3: 4}


# weights of rare events


def test_only_rare_events_weigh_more() -> None:
    batch = batch_of([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [[1, 2]] * 4)
    ledger = PassRates()
    for name, right in (("p0", 1), ("p1", 4), ("p2", 7)):  # hard, neither, easy, and one that is not known
        ledger.add(name, "A", right=right, wrong=8 - right)
    batch = batch.with_advantages(torch.tensor([2.0, -1.0] * 4))
    weigh = operator("advantage", "rare_events", success_weight=3.0, failure_weight=5.0)
    found = weigh(batch, context(ledger=ledger))
    # lengths 1 and 2: right responses have one token, wrong ones two
    assert found.tolist() == [6.0, -1.0, -1.0, 2.0, -1.0, -1.0, 2.0, -5.0, -5.0, 2.0, -1.0, -1.0]
    assert batch.outcomes.tolist() == [RIGHT, WRONG] * 4
    plain = operator("advantage", "rare_events", success_weight=1.0, failure_weight=1.0)
    assert torch.equal(plain(batch, context(ledger=ledger)), batch.advantages)


@given(st.integers(1, 15))
def test_a_rare_success_already_has_the_size_of_the_formula(num_right: int) -> None:
    """|A| of a success at rate p is sqrt((1 - p) / p), of a failure sqrt(p / (1 - p)): the catalogued fact."""
    batch = batch_of([[1.0] * num_right + [0.0] * (16 - num_right)])
    advantages = operator("advantage", "group_mean_std", epsilon=1e-12, ddof=0)(batch, context())
    p = num_right / 16
    assert near(advantages[[0, -1]], [math.sqrt((1 - p) / p), -math.sqrt(p / (1 - p))], 1e-5)


# the adaptive curriculum


def walk(rates_by_step: Sequence[Sequence[float]], *, count: int, **config: Any) -> tuple[list[int], PassRates]:
    size = len(rates_by_step[0])
    pool, ledger, memory, drawn = [prompt(index) for index in range(size)], PassRates(), {}, []
    for step, rates in enumerate(rates_by_step):
        ledger.step = step
        now = context(step, ledger=ledger, memory=memory, collector=rates_of(rates, ledger))
        drawn += operator("sampler", "adaptive_difficulty", num_samples=8, **config)(pool, count, now)
    return drawn, ledger


def test_the_next_part_is_measured_again_and_only_it() -> None:
    start = [0.0, 0.25, 0.5, 0.75, 1.0, 0.125]
    later = [0.5, 0.0, 1.0, 1.0, 1.0, 1.0]
    # parts by the first measurement: [4, 3] [2, 1] [5, 0]; at their turn 2 is easier than 1, and 5 than 0
    drawn, ledger = walk([start, later, later], count=2, num_parts=3)
    assert drawn == [4, 3, 2, 1, 5, 0]
    assert sum(entry.num_samples for entry in ledger) == 8 * (6 + 2 + 2)
    shifted = [1.0, 0.0, 0.0, 1.0, 1.0, 0.5]
    drawn, _ = walk([start, shifted, shifted], count=2, num_parts=3)
    assert drawn == [4, 3, 2, 1, 0, 5]
    fixed, ledger = walk([start, shifted, shifted], count=2, num_parts=3, measure_again=False)
    assert fixed == [4, 3, 2, 1, 5, 0] and sum(entry.num_samples for entry in ledger) == 8 * 6
    assert walk([start] * 3, count=2, num_parts=3, hardest_first=True)[0] == [0, 5, 1, 2, 3, 4]


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 7), st.integers(1, 4))
def test_every_prompt_comes_once_a_round(size: int, parts: int, count: int, rounds: int) -> None:
    calls = math.ceil(size * rounds / count)
    drawn, _ = walk([[index % 8 / 8 for index in range(size)]] * calls, count=count, num_parts=parts)
    for start in range(0, size * rounds, size):
        assert sorted(drawn[start : start + size]) == list(range(size))


# the window of angles


def test_angle_concentration_equals_the_mean_over_pairs() -> None:
    hidden = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))

    def mean_cosine(rows: range, columns: range) -> float:
        cosines = [torch.cosine_similarity(hidden[i], hidden[j], dim=0) for i in rows for j in columns]
        return float(torch.stack(cosines).mean())

    question, before = range(2, 6), range(2)
    expected = mean_cosine(question, question) + 8 * mean_cosine(question, before)
    assert angle_concentration(hidden, 2, 6, inter_weight=8.0) == pytest.approx(expected, abs=1e-6)
    same = torch.ones(4, 3)
    assert angle_concentration(same, 0, 4, inter_weight=8.0) == pytest.approx(1.0)
    assert angle_concentration(same, 1, 4, inter_weight=8.0) == pytest.approx(9.0)


def test_what_all_prompts_share_is_not_the_question() -> None:
    assert question_span([(1, 2, 3, 9), (1, 2, 4, 5, 9), (1, 2, 3, 3, 9)]) == (2, 1)
    assert question_span([(1, 2, 3), (1, 2, 3)]) == (2, 0)
    assert question_span([(1, 2), (3, 2)]) == (0, 1)
    assert question_span([(1,), (1, 1)]) == (0, 0)


def test_the_centre_moves_by_the_released_formula() -> None:
    config = AngleWindowConfig()
    expected = 500 * math.tanh(2 * (0.8 - 0.5)) + 500 * math.tanh(2 * 0.1)
    assert next_centre(100.0, 0.8, 0.1, config) == pytest.approx(100 + expected)
    assert next_centre(100.0, 0.0, 0.0, config) == 100.0  # never back
    assert next_centre(0.0, 1.0, 9.0, config) == pytest.approx(500 * math.tanh(1.0) + 500)
    assert next_centre(0.0, 1.0, 9.0, AngleWindowConfig(max_step=10)) == 10.0


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-1, 9))
def test_higher_accuracy_never_moves_the_window_less(first: float, second: float, angle: float) -> None:
    low, high = sorted((first, second))
    config = AngleWindowConfig()
    assert 0.0 <= next_centre(0.0, low, angle, config) <= next_centre(0.0, high, angle, config) <= 1000.0


def test_window_draws_have_the_gaussian_law_without_repeats() -> None:
    rng = random.Random(0)
    drawn = [draw_window(30, 1, 10.0, 4.0, rng)[0] for _ in range(6000)]
    weights = [math.exp(-0.5 * ((rank - 10) / 4) ** 2) for rank in range(30)]
    for rank in (4, 10, 16):
        assert drawn.count(rank) / 6000 == pytest.approx(weights[rank] / sum(weights), abs=0.015)
    assert draw_window(30, 30, 5.0, 1.0, rng) == list(range(30))
    far = draw_window(30, 5, 1000.0, 1.0, rng)  # where every weight is 0 in floating point
    assert far == [25, 26, 27, 28, 29]


def test_the_window_moves_an_epoch_late() -> None:
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24, vocab_size=20), tokenizer=None, seed=0)

    class Policies:
        start = policy

    class Collector:
        max_tokens = 100

    pool = [prompt(index, tokens=(1, *[3 + index % 5] * (1 + index % 3), 2)) for index in range(12)]
    ledger, memory = PassRates(), {}
    sampler = operator("sampler", "angle_window", sigma=2.0, prompts_per_epoch=4, max_step=5.0)
    for step in range(6):
        ledger.step = step
        now = context(step, ledger=ledger, memory=memory, policies=Policies(), collector=Collector())
        drawn = sampler(pool, 2, now)
        for index in drawn:
            ledger.add(pool[index].item.id, "A", right=4)
    # epochs of two steps; all right and concentrated, so each move is the largest, used one epoch late
    assert memory["centres"] == [0.0, 5.0, 10.0] and memory["epoch"] == 2
    ordered = [memory["metrics"][index] for index in memory["order"]]
    assert ordered == sorted(ordered, reverse=True)
    assert set(memory["trained"]) <= set(range(12)) and len(set(memory["trained"])) == 4
