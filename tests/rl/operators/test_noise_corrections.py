"""Corrections for a reward that errs: by hand, and the expected gradient by enumeration of all responses and errors."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from components.rl.batch.batch import RIGHT, WRONG, Batch
from components.rl.params import RLParams
from tests.rl.build import batch_of, context, near, operator

LOGITS = torch.tensor([0.3, -0.2, 0.9, 0.0], dtype=torch.float64)
CLEAN = (1, 0, 0, 1)
"""Reward of each of four responses of a policy softmax(LOGITS)."""


def marked(batch: Batch, positive: float, negative: float) -> Batch:
    """Return a batch with rates for all responses."""
    ones = torch.ones(batch.num_responses)
    return batch.with_extras(false_positive_rate_s=positive * ones, false_negative_rate_s=negative * ones)


def test_by_hand() -> None:
    batch = marked(batch_of([[1, 0, 0, 1], [1, 1]]), 0.1, 0.3)
    assert near(operator("advantage", "forward_correction")(batch, context()), [0.3, -0.7, -0.7, 0.3, 0.3, 0.3])
    raw = operator("advantage", "backward_correction", centred=False)(batch, context())
    assert near(raw, [1.5, -1 / 6, -1 / 6, 1.5, 1.5, 1.5])  # (1 - .1) / .6 and -.1 / .6
    assert near(operator("advantage", "backward_correction")(batch, context()), [5 / 6, -5 / 6, -5 / 6, 5 / 6, 0, 0])


def expected_update(name: str, positive: float, negative: float, *, group: int) -> Tensor:
    """Return E[sum A_i grad log pi(y_i)] over all groups of responses and all errors of the reward."""
    chances = torch.softmax(LOGITS, 0)
    scores = torch.eye(4, dtype=torch.float64) - chances  # grad log pi(y) of a softmax
    cases = list(itertools.product(range(4), (0, 1)))
    groups = list(itertools.product(cases, repeat=group))
    batch = marked(batch_of([[float(seen) for _, seen in each] for each in groups]), positive, negative)
    advantages = operator("advantage", name)(batch, context()).double().view(len(groups), group)
    total = torch.zeros(4, dtype=torch.float64)
    for each, values in zip(groups, advantages, strict=True):
        weight = 1.0
        for response, seen in each:
            taken = 1 - negative if CLEAN[response] else positive
            weight *= float(chances[response]) * (taken if seen else 1 - taken)
        total += weight * sum(value * scores[response] for (response, _), value in zip(each, values, strict=True))
    return total


def clean_gradient() -> Tensor:
    chances = torch.softmax(LOGITS, 0)
    rewards = torch.tensor(CLEAN, dtype=torch.float64)
    return chances * (rewards - (chances * rewards).sum())


@pytest.mark.parametrize(("positive", "negative"), [(0.0, 0.0), (0.1, 0.3), (0.4, 0.2)])
def test_the_expected_update_is_the_clean_gradient(positive: float, negative: float) -> None:
    left = 1 - positive - negative
    forward = expected_update("forward_correction", positive, negative, group=1)
    assert torch.allclose(forward, left * clean_gradient(), atol=1e-6)
    # each of two responses is in its own baseline, which takes half of the gradient
    backward = expected_update("backward_correction", positive, negative, group=2)
    assert torch.allclose(backward, 2 * (1 - 1 / 2) * clean_gradient(), atol=1e-6)


def test_the_mean_of_the_group_has_no_bias_in_direction_either() -> None:
    """What the recipe expects: errors scale the expected update of group_mean and turn it nowhere."""
    noisy = expected_update("group_mean", 0.1, 0.3, group=2)
    assert torch.allclose(noisy, (1 - 0.1 - 0.3) * clean_gradient(), atol=1e-6)
    batch = marked(batch_of([[1, 0, 0, 1], [1, 0]]), 0.1, 0.3)
    plain = operator("advantage", "group_mean")(batch, context())
    assert near(operator("advantage", "backward_correction")(batch, context()), (plain / 0.6).tolist())


def noisy(right: int, wrong: int, positive: float, negative: float, *, domain: str = "A") -> Batch:
    """Return a group in which exactly these shares of rewards are turned."""
    turned = [0.0] * round(right * negative) + [1.0] * (right - round(right * negative))
    turned += [1.0] * round(wrong * positive) + [0.0] * (wrong - round(wrong * positive))
    batch = batch_of([turned])
    outcomes = torch.tensor([RIGHT] * right + [WRONG] * wrong)
    prompts = [replace(one, item=one.item.model_copy(update={"domain": domain})) for one in batch.prompts]
    return replace(batch, outcomes=outcomes, prompts=tuple(prompts))


def test_where_everything_is_checked_again_the_rates_are_counted() -> None:
    batch, now = noisy(40, 60, 0.1, 0.3), context()
    found = operator("annotate", "noise_rates", appeals=1.0, appeals_of_right=1.0)(batch, now)
    assert near(found.extras["false_positive_rate_s"], [0.1] * 100)
    assert near(found.extras["false_negative_rate_s"], [0.3] * 100)
    assert now.metrics == pytest.approx({"false_positive_rate": 0.1, "false_negative_rate": 0.3, "appeals": 1.0})


def test_without_a_check_of_what_was_taken_for_right_it_all_counts_as_right() -> None:
    found = operator("annotate", "noise_rates", appeals=1.0, false_positives=0.15)(noisy(40, 60, 0.1, 0.3), context())
    assert near(found.extras["false_negative_rate_s"], [12 / (12 + 28 + 6)] * 100)
    assert near(found.extras["false_positive_rate_s"], [0.15] * 100)


def test_a_tenth_of_appeals_finds_the_rate() -> None:
    batch, estimate = noisy(400, 600, 0.1, 0.3), operator("annotate", "noise_rates", appeals_of_right=0.1)
    memory: dict[str, object] = {}
    for _ in range(40):
        now = context(memory=memory)
        estimate(batch, now)
        memory = json.loads(json.dumps(now.memory))  # as a resumed stage gets it
        assert now.metrics["appeals"] == pytest.approx(0.1, abs=0.002)
    # 19 batches' worth of about 66 checks: a deviation of about .012
    assert now.metrics["false_negative_rate"] == pytest.approx(0.3, abs=0.04)
    assert now.metrics["false_positive_rate"] == pytest.approx(0.1, abs=0.03)


def test_given_rates_stay_and_rates_never_reach_one_half() -> None:
    given = operator("annotate", "noise_rates", appeals=0.0, false_negatives=0.25)
    assert near(given(noisy(4, 4, 0, 0.5), context()).extras["false_negative_rate_s"], [0.25] * 8)
    always = operator("annotate", "noise_rates", appeals=1.0)
    assert near(always(noisy(4, 4, 0, 1.0), context()).extras["false_negative_rate_s"], [0.49] * 8)


def test_domains_have_rates_of_their_own() -> None:
    memory: dict[str, object] = {}
    apart = operator("annotate", "noise_rates", appeals=1.0, by_domain=True)
    for domain, negative in (("A", 0.1), ("B", 0.4)):
        found = apart(noisy(10, 10, 0.0, negative, domain=domain), context(memory=memory))
        assert near(found.extras["false_negative_rate_s"], [negative] * 20)


def test_the_rates_must_be_marked() -> None:
    with pytest.raises(ValidationError, match="add annotate operator 'noise_rates'"):
        RLParams.model_validate({"method": "noisy-verifier-correction", "annotate": []})
