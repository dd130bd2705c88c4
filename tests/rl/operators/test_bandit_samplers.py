"""Samplers that are paid by advantages: categories, SEC's values, DUMP's bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.rl.batch.batch import Prompt
from components.rl.curricula.categories import members, softmax
from components.rl.curricula.gains import Gain, new_gains
from components.rl.operators.samplers.boltzmann_bandit import td_update
from components.rl.operators.samplers.ucb_bandit import upper_bounds
from components.rl.step.ledger import PassRates
from tests.rl.build import context, near, operator, prompt

NAMES = ("easy", "hard", "middle")


def pool_of(sizes: Mapping[str, int]) -> list[Prompt]:
    """Return prompts p0, p1, ... with the domains given."""
    domains = [name for name, size in sizes.items() for _ in range(size)]
    made = [prompt(index) for index in range(len(domains))]
    return [replace(p, item=p.item.model_copy(update={"domain": d})) for p, d in zip(made, domains, strict=True)]


def learned(
    ledger: PassRates, step: int, pool: Sequence[Prompt], gains: Mapping[int, tuple[int, float | None]]
) -> None:
    """Enter a step: index into the pool -> (responses, mean |A|)."""
    ledger.step = step
    for index, (number, mean_abs) in gains.items():
        item = pool[index].item
        ledger.add(item.id, item.domain, right=number - 1, wrong=1)
        if mean_abs is not None:
            ledger.set_advantage(item.id, item.domain, mean_abs)


def shares(pool: Sequence[Prompt], drawn: Sequence[int]) -> dict[str, float]:
    counts = Counter(pool[index].item.domain for index in drawn)
    return {name: count / len(drawn) for name, count in counts.items()}


# categories


def test_categories_are_domains_or_fields_of_the_data_or_their_product() -> None:
    pool = pool_of({"B": 2, "A": 1})
    pool = [replace(p, item=p.item.model_copy(update={"data": {"config": {"n": i % 2}}})) for i, p in enumerate(pool)]
    assert members(pool, ["domain"]) == {"A": [2], "B": [0, 1]}
    assert members(pool, ["config.n"]) == {"0": [0, 2], "1": [1]}
    assert members(pool, ["domain", "config.n"]) == {"A/0": [2], "B/0": [0], "B/1": [1]}
    with pytest.raises(InputError, match=r"prompt p0 has no 'config.m'"):
        members(pool, ["config.m"])


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e3, 1e3), min_size=1), st.floats(0.01, 10))
def test_softmax_is_a_distribution_that_keeps_the_order(scores: dict[str, float], temperature: float) -> None:
    weights = softmax(scores, temperature)
    assert math.isclose(sum(weights.values()), 1.0)
    ranked = sorted(scores, key=scores.__getitem__)
    assert all(weights[low] <= weights[high] for low, high in pairwise(ranked))
    shifted = softmax({name: score + 7.0 for name, score in scores.items()}, temperature)
    assert near(list(shifted.values()), list(weights.values()), 1e-9)


def test_gains_come_once_and_never_from_the_current_step() -> None:
    pool = pool_of({"easy": 2, "hard": 1})
    ledger, memory = PassRates(), {}
    learned(ledger, 0, pool, {0: (4, 0.5), 2: (4, 0.0)})
    learned(ledger, 1, pool, {1: (2, None)})
    ledger.add("elsewhere", "other", right=1)
    categories = members(pool, ["domain"])
    first = new_gains(categories, pool, context(1, ledger=ledger, memory=memory))
    assert first == [[Gain("easy", 4, 0.5), Gain("hard", 4, 0.0)]]
    assert new_gains(categories, pool, context(1, ledger=ledger, memory=memory)) == []
    # nothing was learned from p1 at step 1: it gained 0
    assert new_gains(categories, pool, context(2, ledger=ledger, memory=memory)) == [[Gain("easy", 2, 0.0)]]


# SEC


def test_td_update_by_hand() -> None:
    # easy: (3 * 0.2 + 1 * 0.6) / 4 = 0.3; 0.5 * 0.3 + 0.5 * 0.1 = 0.2
    gains = [Gain("easy", 3, 0.2), Gain("easy", 1, 0.6), Gain("hard", 2, 0.8)]
    found = td_update({"easy": 0.1, "hard": 0.0, "middle": 0.4}, gains, 0.5)
    assert found == pytest.approx({"easy": 0.2, "hard": 0.4})


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 9), st.floats(0, 2)), max_size=6), max_size=6),
    st.floats(0.01, 1),
)
def test_td_values_equal_the_recursion_over_all_responses(
    steps: list[list[tuple[str, int, float]]], rate: float
) -> None:
    values = dict.fromkeys(NAMES, 0.0)
    expected = dict(values)
    for step in steps:
        values |= td_update(values, [Gain(*gain) for gain in step], rate)
        for name in NAMES:
            responses = [mean for category, number, mean in step if category == name for _ in range(number)]
            if responses:
                expected[name] = rate * (sum(responses) / len(responses)) + (1 - rate) * expected[name]
    assert values == pytest.approx(expected)


def test_the_bandit_moves_to_the_category_with_advantages() -> None:
    pool, bandit = pool_of({"easy": 20, "hard": 20}), operator("sampler", "boltzmann_bandit", temperature=0.1)
    ledger, memory = PassRates(), {}
    first = bandit(pool, 2000, context(0, ledger=ledger, memory=memory))
    assert shares(pool, first)["easy"] == pytest.approx(0.5, abs=0.05)
    learned(ledger, 0, pool, {0: (8, 0.0), 20: (8, 0.4)})
    second = bandit(pool, 2000, context(1, ledger=ledger, memory=memory))
    assert memory["values"] == pytest.approx({"easy": 0.0, "hard": 0.2})
    assert shares(pool, second)["hard"] == pytest.approx(1 / (1 + math.exp(-2)), abs=0.03)
    assert len(set(bandit(pool, 5, context(2, ledger=ledger, memory=memory)))) == 5  # no repeats while there are others


def test_draws_depend_on_seed_and_call_only() -> None:
    pool = pool_of({"easy": 20, "hard": 20})
    for name in ("boltzmann_bandit", "ucb_bandit"):
        bandit, memory = operator("sampler", name), {}
        first, second = (bandit(pool, 9, context(0, memory=memory)) for _ in range(2))
        assert first != second and first == bandit(pool, 9, context(0)) != bandit(pool, 9, context(0, seed=1))


# DUMP


def test_upper_bounds_by_hand() -> None:
    # N = 3: sqrt(2 ln 4 / 4) = 0.83255 for the seen, sqrt(2 ln 4 / 1) = 1.66511 for the unseen
    found = upper_bounds({"easy": 0.5, "hard": 0.0}, {"easy": 3, "hard": 0}, 1.0)
    assert found == pytest.approx({"easy": 0.5 + 0.8325546, "hard": 1.6651092})
    assert upper_bounds({"easy": 0.5}, {"easy": 0}, 1.0) == {"easy": 0.5}
    assert upper_bounds({"easy": 0.5}, {"easy": 9}, 0.0) == {"easy": 0.5}


@given(
    st.lists(st.tuples(st.sampled_from((0, 20)), st.integers(1, 8), st.floats(0, 2)), max_size=12), st.integers(1, 20)
)
def test_learnability_is_the_mean_over_the_last_responses(gains: list[tuple[int, int, float]], window: int) -> None:
    pool, ledger, memory = pool_of({"easy": 20, "hard": 20}), PassRates(), {}
    for step, (index, number, mean) in enumerate(gains):
        learned(ledger, step, pool, {index: (number, mean)})
    operator("sampler", "ucb_bandit", window=window)(pool, 1, context(len(gains), 99, ledger=ledger, memory=memory))
    for start, name in ((0, "easy"), (20, "hard")):
        responses = [mean for index, number, mean in gains if index == start for _ in range(number)]
        kept = [mean for number, mean in memory["windows"][name] for _ in range(number)]
        assert kept == responses[-window:]
        assert memory["num_responses"][name] == len(responses)


def test_solved_and_hopeless_distributions_lose_weight() -> None:
    pool, ledger = pool_of({"solved": 10, "right": 10, "hopeless": 10}), PassRates()
    learned(ledger, 0, pool, {0: (400, 0.0), 10: (400, 0.6), 20: (400, 0.0)})
    drawn = operator("sampler", "ucb_bandit")(pool, 1000, context(1, ledger=ledger))
    bonus = math.sqrt(2 * math.log(1201) / 401)
    top, other = math.exp((0.6 + bonus) / 0.1), math.exp(bonus / 0.1)
    assert shares(pool, drawn)["right"] == pytest.approx(top / (top + 2 * other), abs=0.01)
