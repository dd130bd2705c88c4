"""RECAP: the mixture of new and replayed prompts, and the weights of objectives."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import UnknownName
from components.rl.batch.batch import Batch, Prompt
from components.rl.operators.advantages.objective_weights import ObjectiveWeightsConfig, objective_weights_of
from tests.rl.build import batch_of, context, near, operator, prompt


def pool(counts: dict[str, int]) -> list[Prompt]:
    prompts = []
    for domain, count in counts.items():
        for index in range(count):
            made = prompt(index)
            prompts.append(
                replace(made, item=made.item.model_copy(update={"id": f"{domain}{index}", "domain": domain}))
            )
    return prompts


@given(draws=st.lists(st.integers(1, 13), min_size=1, max_size=8), share=st.sampled_from([0.1, 0.3, 0.5]))
def test_every_prefix_has_its_share_and_every_epoch_all_prompts(draws: list[int], share: float) -> None:
    prompts, now = pool({"new": 7, "old": 3, "older": 2}), context()
    sampler = operator("sampler", "replay_mixture", replay_domains=["old", "older"], replay_share=share)
    seen = [index for count in draws for index in sampler(prompts, count, now)]
    for length in range(1, len(seen) + 1):
        replayed = sum(index >= 7 for index in seen[:length])
        assert abs(replayed - share * length) < 1
    for part, size in ((range(7), 7), (range(7, 12), 5)):
        own = [index for index in seen if index in part]
        for start in range(0, len(own) - size + 1, size):
            assert sorted(own[start : start + size]) == list(part)


def test_a_mixture_goes_on_from_its_memory_and_names_unknown_domains() -> None:
    prompts = pool({"new": 7, "old": 3})
    sampler = operator("sampler", "replay_mixture", replay_domains=["old"])
    whole = sampler(prompts, 30, context())
    first = context()
    head = sampler(prompts, 11, first)
    assert head + sampler(prompts, 19, context(memory={"drawn": dict(first.memory["drawn"])})) == whole
    with pytest.raises(UnknownName, match="did you mean 'old'"):
        operator("sampler", "replay_mixture", replay_domains=["odl"])(prompts, 1, context())
    assert sorted(operator("sampler", "replay_mixture")(prompts, 10, context())) == list(range(10))


def by_loop(history: dict[str, list[float]], window: int, temperature: float, epsilon: float) -> dict[str, float]:
    """Write the formulas out for two or more objectives."""
    c, i, m = {}, {}, {}
    for name, values in history.items():
        before, now = values[:window], values[window:]
        m[name] = sum(now) / window
        c[name] = m[name] / (sum(before) / window + epsilon)
        i[name] = math.sqrt(sum((v - m[name]) ** 2 for v in now) / window) / (abs(m[name]) + epsilon)
    score = {}
    for name in history:
        score[name] = (min(c[name], 2.0) + i[name]) * m[name]
    total = sum(math.exp(value / temperature) for value in score.values())
    return {name: len(score) * math.exp(value / temperature) / total for name, value in score.items()}


histories = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=1
)


@given(histories, st.sampled_from([0.5, 1.0, 2.0]))
def test_weights_equal_the_formulas_and_have_mean_one(history: dict[str, list[float]], temperature: float) -> None:
    config = ObjectiveWeightsConfig(window=3, temperature=temperature)
    found = objective_weights_of(history, config)
    assert near(list(found.values()), list(by_loop(history, 3, temperature, 1e-6).values()), 1e-6)
    assert sum(found.values()) == pytest.approx(len(history))


def test_a_saturated_objective_counts_less_than_a_stuck_one() -> None:
    stuck = [0.6, 0.6, 0.6, 0.62, 0.58, 0.6]
    steady = [0.0] * 6
    found = objective_weights_of({"done": steady, "stuck": stuck}, ObjectiveWeightsConfig(window=3))
    assert found["done"] < 1 < found["stuck"]


@given(st.lists(st.floats(0.05, 0.9), min_size=6, max_size=6), st.floats(1.0, 1.1), st.sampled_from([1, 3]))
def test_more_headroom_never_costs_weight(values: list[float], factor: float, others: int) -> None:
    """The same course at a higher level: equal convergence and instability, and a higher weight."""
    history = {f"done{n}": values for n in range(others)} | {"lagging": [factor * value for value in values]}
    found = objective_weights_of(history, ObjectiveWeightsConfig(window=3))
    assert found["lagging"] >= found["done0"] - 1e-9


def test_by_hand_a_lagging_objective_that_improves_outweighs_a_saturated_one_that_is_stuck() -> None:
    history = {"lagging": [0.5] * 3 + [0.4] * 3, "saturated": [0.02] * 6}
    found = objective_weights_of(history, ObjectiveWeightsConfig(window=3))
    scores = 0.4 / 0.5 * 0.4, 1.0 * 0.02  # convergence times headroom, nothing is unstable
    assert found["lagging"] == pytest.approx(2 / (1 + math.exp(scores[1] - scores[0])), abs=1e-4)
    assert found["lagging"] > 1.1
    # three times as much headroom as before counts as twice
    worse = objective_weights_of({"a": [0.1] * 3 + [0.3] * 3, "b": [0.3] * 6}, ObjectiveWeightsConfig(window=3))
    assert worse["a"] == pytest.approx(2 / (1 + math.exp(0.3 - 0.6)), abs=1e-4)


def two_domains(right_share: float) -> Batch:
    """Two groups of two: the first of domain A with that mean reward, the second of domain B half right."""
    batch = batch_of([[1.0, 2 * right_share - 1], [1.0, 0.0]], [[1, 2], [2, 1]])
    items = [made.item.model_copy(update={"domain": domain}) for made, domain in zip(batch.prompts, "AB", strict=True)]
    batch = replace(batch, prompts=tuple(replace(p, item=i) for p, i in zip(batch.prompts, items, strict=True)))
    return batch.with_advantages(batch.rewards - 0.5)


def test_weights_multiply_the_advantages_of_their_domain_every_window() -> None:
    memory: dict[str, Any] = {}
    weights = operator("advantage", "objective_weights", window=2)
    shares = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    seen = []
    for step, share in enumerate(shares):
        batch, collector = two_domains(share), SimpleNamespace(metrics={})
        found = weights(batch, context(step, memory=memory, collector=collector))
        expected = collector.metrics
        assert expected["headroom_A"] == pytest.approx(1 - share) and expected["headroom_B"] == pytest.approx(0.5)
        factor = [expected["weight_A"]] * 3 + [expected["weight_B"]] * 3
        assert near(found, [f * a for f, a in zip(factor, batch.advantages.tolist(), strict=True)])
        seen.append(round(expected["weight_A"], 6))
    config = ObjectiveWeightsConfig(window=2)
    at_3 = objective_weights_of({"A": [0.5, 0.4, 0.3, 0.2], "B": [0.5] * 4}, config)["A"]
    at_5 = objective_weights_of({"A": [0.3, 0.2, 0.1, 0.0], "B": [0.5] * 4}, config)["A"]
    assert seen == [1.0, 1.0, 1.0, round(at_3, 6), round(at_3, 6), round(at_5, 6)]


def test_one_objective_always_counts_one() -> None:
    assert objective_weights_of({"only": [0.1, 0.5, 0.2, 0.9]}, ObjectiveWeightsConfig(window=2)) == {"only": 1.0}
