"""DARL's deviation against plain forward passes, with every side of its range."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.rl.step.policies import Policies
from tests.rl.build import context, near, operator
from tests.rl.operators.test_label_free import BEFORE, REFERENCES, TEXTS, collector, policy_of, probabilities, written

OWN = [["7", "12", None], ["", "31"]]
"""The answers of TEXTS; one is empty, one is the reference itself."""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return policy_of()


@pytest.mark.parametrize("max_tokens", [1000, 30])
@pytest.mark.parametrize("limit", [0.01, 1.0, 1.5, 8.0, 1e6])
def test_it_is_what_plain_passes_give(policy: Policy, limit: float, max_tokens: int) -> None:
    batch = written(policy, TEXTS, REFERENCES)
    now = context(collector=collector(policy, max_tokens), policies=Policies(policy, Path("unused"), dtype="float32"))
    expected = []
    for group, reference in enumerate(REFERENCES):
        for before, own in zip(BEFORE[group], OWN[group], strict=True):
            if before is None or not own:
                expected.append(0.0)
                continue
            theirs, mine = (
                float(probabilities(policy, f"q{group}\n{before}", answer).mean()) for answer in (reference, own)
            )
            deviation = max(0.0, theirs - mine)
            expected.append(deviation if deviation <= theirs / limit else 0.0)
    assert near(operator("reward", "answer_deviation", range=limit)(batch, now), expected, 1e-6)
    assert now.metrics["within_range"] == sum(value > 0 for value in expected) / 5


def test_some_deviations_count_and_some_do_not(policy: Policy) -> None:
    """So that the comparison above has both cases."""
    found = {}
    for limit in (0.01, 1e6):
        now = context(collector=collector(policy, 1000), policies=Policies(policy, Path("unused"), dtype="float32"))
        texts = [[f"<answer>{own}" for own in "abcdefgh"]]
        found[limit] = operator("reward", "answer_deviation", range=limit)(written(policy, texts, ["z"]), now)
    assert bool((found[0.01] > 0).any()) and not bool((found[1e6] > 0).any())


def test_a_reference_is_needed_and_no_answer_has_none(policy: Policy) -> None:
    now = context(collector=collector(policy))
    with pytest.raises(InputError, match="no reference answer"):
        operator("reward", "answer_deviation")(written(policy, [["a"]], [""]), now)
    assert operator("reward", "answer_deviation")(written(policy, [["a"]], ["b"]), now).tolist() == [0.0]
