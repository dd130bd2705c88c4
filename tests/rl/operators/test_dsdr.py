"""DSDR: distinct right responses, the softmax over them, and the entropy term, against loops."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, near, operator, rows_of
from tests.rl.step.test_learner import learner, slots_of, tiny
from tests.rl.step.test_states import by_hand

TOKENS = [[1, 1, 2], [1, 2], [3, 3], [4, 4], [1, 2], [5], [6, 6]]
"""Group 0: right, right, right, wrong. Group 1: right, wrong. Group 2: one response, right."""


def rewritten() -> Batch:
    batch = batch_of([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0], [1.0]], [[3, 2, 2, 2], [2, 1], [2]])
    tokens = torch.tensor([token for row in TOKENS for token in row])
    return replace(batch, tokens=tokens, texts=("1+1=2", "1+1=2 2+2=4", "x", "9+9=1", "", "", ""))


def cosine(first: list[int], second: list[int]) -> float:
    dot = sum(first.count(token) * second.count(token) for token in set(first))
    size = math.sqrt(math.prod(sum(row.count(token) ** 2 for token in set(row)) for row in (first, second)))
    return dot / size


def distinct_by_hand(share: float) -> list[float]:
    """Of the three right responses of group 0."""
    semantic = [1 - sum(cosine(TOKENS[i], TOKENS[j]) for j in range(3) if j != i) / 2 for i in range(3)]
    formula = [0.0, 0.5, 0.0]  # "2+2=4" is one of two; the third text has none
    return [(1 - share) * s + share * f for s, f in zip(semantic, formula, strict=True)]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_right_responses_are_rewarded_by_how_distinct_they_are(share: float) -> None:
    now = context()
    found = operator("reward", "correct_diversity", by="tokens", formula_share=share)(rewritten(), now)
    expected = distinct_by_hand(share)
    assert near(found, [*expected, 0, 0, 0, 0])
    assert now.metrics["right_distinctness"] == pytest.approx(sum(expected) / 3)
    low = operator("reward", "correct_diversity", by="tokens", formula_share=share, bound=0.4)
    bounded = low(rewritten(), context())
    assert near(bounded, [*(min(d, 0.4) for d in expected), 0, 0, 0, 0])


def test_pairs_see_the_order_that_tokens_do_not() -> None:
    batch = replace(batch_of([[1.0, 1.0]], [[3, 3]]), tokens=torch.tensor([1, 2, 3, 3, 2, 1]), texts=("", ""))
    for kind, expected in (("tokens", [0.0, 0.0]), ("pairs", [1.0, 1.0])):
        assert near(operator("reward", "correct_diversity", by=kind)(batch, context()), expected)


def test_hidden_states_of_the_start_are_compared() -> None:
    policy, batch = tiny(), rewritten()
    now = context(policies=SimpleNamespace(start=policy), collector=SimpleNamespace(max_tokens=9))
    found = operator("reward", "correct_diversity", formula_share=0.0)(batch, now)
    with torch.no_grad():
        means = torch.nn.functional.normalize(by_hand(policy, batch, -1)[0][:3].double(), dim=1)
    similar = means @ means.T
    expected = [1 - (float(similar[i].sum()) - 1) / 2 for i in range(3)]
    assert near(found, [*(min(max(d, 0), 1) for d in expected), 0, 0, 0, 0], 1e-5)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 1e-4])
def test_the_coupling_is_a_softmax_over_right_responses(temperature: float) -> None:
    batch = rewritten()
    found = operator("annotate", "diversity_coupling", by="tokens", temperature=temperature)(batch, context())
    distinct = distinct_by_hand(0.5)
    powers = [math.exp((d - max(distinct)) / temperature) for d in distinct]
    assert near(found.extras["coupling_s"], [*(4 * power / sum(powers) for power in powers), 0, 0, 0, 0], 1e-5)


def test_the_term_is_minus_the_weighted_mean_entropy_of_right_responses() -> None:
    """Summed with its denominator: over groups, sum_i softmax_i * mean entropy of response i, divided by the groups."""
    batch = operator("annotate", "diversity_coupling", by="tokens")(rewritten(), context())
    entropies = torch.rand(batch.num_tokens, generator=torch.Generator().manual_seed(0))
    scores = TokenScores(batch.old_logprobs, entropies)
    slots = slots_of("dsdr", regularizers=[{"name": "coupled_entropy", "coefficient": 0.3}])
    weighted = learner(tiny(), slots)._weighted(batch, context().settings)
    (bound,) = slots.regularizers
    found = bound(scores, weighted, context())
    total = float((found.loss * learner(tiny(), slots)._weights(bound, weighted)).sum())
    means = [sum(row) / len(row) for row in rows_of(batch, entropies)]
    distinct = distinct_by_hand(0.5)
    powers = [math.exp(d / 0.1) for d in distinct]
    # the first group has four of the seven responses; the mean is over responses
    expected = -0.3 * 4 / 7 * sum(p / sum(powers) * h for p, h in zip(powers, means, strict=False))
    assert total == pytest.approx(expected, rel=1e-5)


def test_without_two_right_responses_it_is_grpo() -> None:
    batch = batch_of([[1.0, 0.0], [0.0, 0.0]])
    now = context(policies=SimpleNamespace(start=tiny()), collector=SimpleNamespace(max_tokens=99))
    assert operator("reward", "correct_diversity")(batch, now).tolist() == [0, 0, 0, 0]
    assert operator("annotate", "diversity_coupling")(batch, now).extras["coupling_s"].tolist() == [0, 0, 0, 0]
    assert "right_distinctness" not in now.metrics
    none = batch.select(torch.zeros(4, dtype=torch.bool))
    assert operator("annotate", "diversity_coupling", by="tokens")(none, now).extras["coupling_s"].tolist() == []
