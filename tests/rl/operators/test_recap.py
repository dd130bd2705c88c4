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


def by_loop(history: dict[str, list[float]], temperature: float, alpha: float) -> dict[str, float]:
    """Write the released trainer's formulas out for six values of each objective."""
    c, i = {}, {}
    for name, values in history.items():
        mean = sum(values) / 6
        c[name] = sum(values[:3]) / (sum(values[3:]) + 1e-15)
        i[name] = math.sqrt(sum((value - mean) ** 2 for value in values) / 6) / (mean + 1e-15)
    total_c = sum(math.exp(value / temperature) for value in c.values())
    total_i = sum(math.exp(value / temperature) for value in i.values())
    return {
        name: len(c)
        * (alpha * math.exp(c[name] / temperature) / total_c + (1 - alpha) * math.exp(i[name] / temperature) / total_i)
        for name in c
    }


histories = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.lists(st.floats(0.01, 1), min_size=6, max_size=6), min_size=1
)


@given(histories, st.sampled_from([1.0, 5.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_weights_equal_the_formulas_and_have_mean_one(
    history: dict[str, list[float]], temperature: float, alpha: float
) -> None:
    config = ObjectiveWeightsConfig(window=3, temperature=temperature, convergence_share=alpha)
    found = objective_weights_of(history, config)
    assert near(list(found.values()), list(by_loop(history, temperature, alpha).values()), 1e-6)
    assert sum(found.values()) == pytest.approx(len(history))


def test_by_hand_a_stuck_and_an_unstable_objective_count_more() -> None:
    config = ObjectiveWeightsConfig(window=2, temperature=1.0)
    rising = objective_weights_of({"rises": [0.2, 0.2, 0.4, 0.4], "saturated": [1.0] * 4}, config)
    # convergence 0.5 and 1, instability 0.1 / 0.3 and 0
    by_c, by_i = 1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(-1 / 3))
    assert rising["rises"] == pytest.approx(by_c + by_i)
    shaken = objective_weights_of({"shaken": [0.2, 0.6, 0.6, 0.2], "saturated": [1.0] * 4}, config)
    assert shaken["shaken"] == pytest.approx(0.5 + 1 / (1 + math.exp(-0.5)))
    fell = objective_weights_of({"fell": [0.9, 0.9, 0.3, 0.3], "saturated": [1.0] * 4}, config)
    assert fell["fell"] == pytest.approx(1 / (1 + math.exp(-2)) + 1 / (1 + math.exp(-0.5)))


def test_an_odd_history_loses_its_oldest_value_and_a_single_value_says_nothing() -> None:
    config = ObjectiveWeightsConfig(window=2)
    odd = objective_weights_of({"a": [0.9, 0.2, 0.4], "b": [0.1, 0.5, 0.5]}, config)
    assert odd == objective_weights_of({"a": [0.2, 0.4], "b": [0.5, 0.5]}, config)
    assert objective_weights_of({"a": [0.9], "b": [0.1]}, config) == {"a": 1.0, "b": 1.0}


def test_an_objective_that_was_never_reached_counts_as_one_that_is_improving() -> None:
    found = objective_weights_of({"never": [0.0] * 4, "stuck": [0.5] * 4}, ObjectiveWeightsConfig(window=2))
    assert found["never"] < 1 < found["stuck"]  # as released: a mean of 0 over a mean of 0 is 0


def two_domains(right_share: float) -> Batch:
    """Two groups of two: the first of domain A with that mean reward, the second of domain B half right."""
    batch = batch_of([[1.0, 2 * right_share - 1], [1.0, 0.0]], [[1, 2], [2, 1]])
    items = [made.item.model_copy(update={"domain": domain}) for made, domain in zip(batch.prompts, "AB", strict=True)]
    batch = replace(batch, prompts=tuple(replace(p, item=i) for p, i in zip(batch.prompts, items, strict=True)))
    return batch.with_advantages(batch.rewards - 0.5)


def test_weights_multiply_the_advantages_of_their_domain_from_what_is_kept() -> None:
    memory: dict[str, Any] = {}
    weights = operator("advantage", "objective_weights", window=2)
    shares = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    for step, share in enumerate(shares):
        batch, collector = two_domains(share), SimpleNamespace(metrics={})
        found = weights(batch, context(step, memory=memory, collector=collector))
        seen = collector.metrics
        assert seen["objective_A"] == pytest.approx(share) and seen["objective_B"] == pytest.approx(0.5)
        factor = [seen["weight_A"]] * 3 + [seen["weight_B"]] * 3
        assert near(found, [f * a for f, a in zip(factor, batch.advantages.tolist(), strict=True)])
        kept = shares[: step + 1][-4:]
        expected = objective_weights_of({"A": kept, "B": [0.5] * len(kept)}, ObjectiveWeightsConfig(window=2))
        assert seen["weight_A"] == pytest.approx(expected["A"])
    assert memory["history"]["A"] == pytest.approx(shares[-4:])


def test_one_objective_always_counts_one() -> None:
    assert objective_weights_of({"only": [0.1, 0.5, 0.2, 0.9]}, ObjectiveWeightsConfig(window=2)) == {"only": 1.0}
