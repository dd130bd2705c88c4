"""Losses of preferences by hand, against plain formulas, and what every one of them must satisfy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.registry import operators
from components.modeling.supervised.pair_losses import above, logistic_loss
from components.preference.compared import Compared, Loss
from components.preference.loss_config import PreferenceLossConfig
from components.preference.slots import PREFERENCE_LOSS
from tests.rl.build import batch_of, context, noisy_scores, operator, rows_of

ALL = sorted(operators(PREFERENCE_LOSS).names())
numbers = st.floats(-20, -0.1)


def compared(
    logprobs: Sequence[float],
    reference: Sequence[float] | None = None,
    *,
    lengths: Sequence[float] | None = None,
    scores: Sequence[float] | None = None,
    example: Sequence[int] | None = None,
    margins: Sequence[float] | None = None,
    divergence: float = 0.0,
) -> Compared:
    """Return responses in double precision; by default pairs of one-token responses."""
    count = len(logprobs)
    example = [at // 2 for at in range(count)] if example is None else example
    values = {
        "logprobs": logprobs,
        "reference": reference or [0.0] * count,
        "lengths": lengths or [1.0] * count,
        "scores": scores or [1.0, 0.0] * (count // 2),
        "margins": margins or [0.0] * (max(example) + 1),
    }
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
    tensors["logprobs"].requires_grad_(True)
    return Compared(**tensors, example=torch.tensor(example), divergence=torch.tensor(divergence, dtype=torch.float64))


def loss_of(given: Compared, **spec: Any) -> Loss:
    return OperatorSpec.model_validate(spec).resolve(PREFERENCE_LOSS)(given)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


PAIR = {"logprobs": [-2.0, -3.0], "reference": [-2.5, -2.0]}  # log-ratios .5 and -1, a gap of 1.5
LENGTHS = {"lengths": [2.0, 4.0]}
BY_HAND: list[tuple[dict[str, Any], dict[str, Any], float]] = [
    ({"name": "dpo", "beta": 2}, PAIR, -math.log(sigmoid(3.0))),
    (
        {"name": "dpo", "beta": 2, "label_smoothing": 0.25},
        PAIR,
        -0.75 * math.log(sigmoid(3.0)) - 0.25 * math.log(sigmoid(-3.0)),
    ),
    ({"name": "dpo", "beta": 2, "length_normalised": True}, PAIR | LENGTHS, -math.log(sigmoid(2 * (0.25 + 0.25)))),
    ({"name": "ipo", "beta": 1}, PAIR | LENGTHS, (0.5 - 0.5) ** 2),
    ({"name": "ipo", "beta": 0.5, "length_normalised": False}, PAIR | LENGTHS, (1.5 - 1) ** 2),
    ({"name": "rpo", "beta": 2, "eta": 0.5}, PAIR | LENGTHS, -math.log(sigmoid(3.0)) + 0.5 * 2 * 2.0),
    ({"name": "rpo", "beta": 2, "eta": 0.5, "averaged": True}, PAIR | LENGTHS, -math.log(sigmoid(3.0)) + 0.5 * 2 * 1.0),
    ({"name": "cpo", "beta": 2}, PAIR, -math.log(sigmoid(2.0))),
    ({"name": "simpo", "beta": 2, "gamma": 1}, PAIR | LENGTHS, -math.log(sigmoid(2 * (-1 + 0.75) - 1))),
    ({"name": "step_apo", "beta": 2, "alpha": 0.5}, PAIR | {"margins": [4.0]}, -math.log(sigmoid(3.0 - 2.0))),
    (
        {"name": "dynamic_beta", "beta": 2, "growth": 0.5, "rate": 1},
        PAIR | {"margins": [math.log(2)]},
        -math.log(sigmoid(2 * 1.25 * 1.5)),
    ),
    ({"name": "dynamic_beta", "beta": 2}, PAIR | {"margins": [-9.0]}, -math.log(sigmoid(3.0))),
    ({"name": "dynamic_beta", "beta": 2}, PAIR | {"margins": [1e9]}, -math.log(sigmoid(2 * 1.5 * 1.5))),
    ({"name": "ranking"}, PAIR | LENGTHS, 0.25),  # means -1 and -.75: the rejected one stands above
    ({"name": "ranking", "form": "pro"}, PAIR | LENGTHS, -math.log(sigmoid(-0.25))),
    (
        {"name": "orpo", "beta": 0.5},
        {"logprobs": [2 * math.log(0.8), 4 * math.log(0.5)], **LENGTHS},
        -0.5 * math.log(sigmoid(math.log(4.0))),
    ),
    (
        {"name": "kto", "beta": 2, "desirable_weight": 3},
        {"logprobs": [-2.0], "reference": [-2.5], "scores": [1.0], "example": [0], "divergence": 0.25},
        3 * (1 - sigmoid(0.5)),
    ),
    (
        {"name": "kto", "beta": 2, "undesirable_weight": 3},
        {"logprobs": [-2.0], "reference": [-2.5], "scores": [0.0], "example": [0], "divergence": 0.25},
        3 * (1 - sigmoid(-0.5)),
    ),
]


@pytest.mark.parametrize(("spec", "given", "expected"), BY_HAND)
def test_by_hand(spec: dict[str, Any], given: dict[str, Any], expected: float) -> None:
    found = loss_of(compared(**given), **spec)
    assert found.loss.tolist() == pytest.approx([expected])


def test_every_loss_is_worked_by_hand() -> None:
    assert {spec["name"] for spec, *_ in BY_HAND} == set(ALL)
    assert len(ALL) == 10


@pytest.mark.parametrize("name", ALL)
def test_descent_raises_the_better_response_above_the_worse(name: str) -> None:
    labels = {"scores": [1.0, 0.0], "example": [0, 1], "margins": [0.0, 0.0]} if name == "kto" else {}
    given = compared([-3.0, -2.9], [-3.0, -3.0], lengths=[2.0, 2.0], **labels)
    found = loss_of(given, name=name)
    found.loss.sum().backward()
    assert given.logprobs.grad is not None
    better, worse = given.logprobs.grad.tolist()
    assert better < 0 <= worse or (better <= 0 < worse)
    assert torch.isfinite(given.logprobs.grad).all()


@pytest.mark.parametrize("name", ALL)
def test_losses_are_those_of_each_example_alone(name: str) -> None:
    values = [-3.0, -4.0, -2.0, -6.0]
    if name == "kto":
        more = {"example": [0, 1, 2, 3], "margins": [0.0] * 4, "scores": [1.0, 0.0, 0.0, 1.0]}
        alone = [
            loss_of(compared([v], [-3.0], scores=[s], example=[0], margins=[0.0]), name=name).loss
            for v, s in zip(values, more["scores"], strict=True)
        ]
    else:
        more = {"margins": [1.0, 2.0]}
        alone = [
            loss_of(compared(values[at : at + 2], [-3.0, -3.0], margins=[1.0 + at // 2]), name=name).loss
            for at in (0, 2)
        ]
    together = loss_of(compared(values, [-3.0] * 4, **more), name=name).loss
    torch.testing.assert_close(together, torch.cat(alone))


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.tuples(numbers, st.integers(0, 3)), min_size=2, max_size=6))
def test_rankings_are_the_papers_sums(values: list[tuple[float, int]]) -> None:
    logprobs, scores = zip(*values, strict=True)
    if len(set(scores)) < 2:
        return
    one = [0] * len(values)
    given = compared(list(logprobs), scores=[float(score) for score in scores], example=one, margins=[0.0])
    hinges = sum(
        max(0.0, (worse - better) * (1 if s > t else -1))
        for (better, s), (worse, t) in combinations(values, 2)
        if s != t
    )
    assert loss_of(given, name="ranking").loss.item() == pytest.approx(hinges)
    expected = 0.0
    for value, score in values:
        below = [other for other, its in values if its < score]
        if below:
            expected -= value - math.log(math.exp(value) + sum(map(math.exp, below)))
    found = loss_of(given, name="ranking", form="pro")
    assert found.loss.item() == pytest.approx(expected, abs=1e-9)
    ordered = [(v - w) * (1 if s > t else -1) > 0 for (v, s), (w, t) in combinations(values, 2) if s != t]
    assert found.right.item() == pytest.approx(sum(ordered) / len(ordered))


@settings(max_examples=60, deadline=None)
@given(sides=st.tuples(numbers, numbers, numbers, numbers), beta=st.floats(0.01, 5))
def test_losses_without_their_own_part_are_dpo_bit_for_bit(sides: tuple[float, ...], beta: float) -> None:
    given = {"logprobs": list(sides[:2]), "reference": list(sides[2:]), "margins": [1.5]}
    expected = loss_of(compared(**given), name="dpo", beta=beta).loss
    for spec in (
        {"name": "rpo", "eta": 0},
        {"name": "step_apo", "alpha": 0},
        {"name": "dynamic_beta", "growth": 0},
    ):
        assert torch.equal(loss_of(compared(**given), **spec, beta=beta).loss, expected), spec


@settings(max_examples=40, deadline=None)
@given(gap=st.floats(-30, 30), smoothing=st.floats(0, 0.49))
def test_flipping_a_pair_is_flipping_its_label(gap: float, smoothing: float) -> None:
    margin = torch.tensor([gap, -gap], dtype=torch.float64)
    loss = logistic_loss(margin, smoothing)
    flipped = logistic_loss(-margin, smoothing)
    assert torch.equal(loss.flip(0), flipped)
    assert (loss >= 0).all()


def test_rl_has_the_same_dpo() -> None:
    """Its operator works on tokens of groups; records name its code, so the formula stands in both, and is one."""
    batch = batch_of([[1.0, 0.0], [0.0, 1.0]], [[2, 3], [1, 4]])
    batch = replace(batch, reference_logprobs=batch.old_logprobs)
    scores = noisy_scores(batch)
    found = operator("objective", "dpo", beta=0.3)(scores, batch, context())
    sums = [[sum(row) for row in rows_of(batch, values)] for values in (scores.logprobs, batch.reference_logprobs)]
    logprobs, reference = ([row[0], row[1], row[3], row[2]] for row in sums)  # the right response of a pair comes first
    ours = loss_of(compared(logprobs, reference), name="dpo", beta=0.3)
    of_pairs = [rows_of(batch, found.loss)[row][0] for row in (0, 2)]
    assert of_pairs == pytest.approx(ours.loss.tolist(), rel=1e-5)


def test_certain_responses_have_finite_odds() -> None:
    given = compared([0.0, -1e-9])
    found = loss_of(given, name="orpo")
    found.loss.sum().backward()
    assert torch.isfinite(found.loss).all()


def test_above_is_within_examples() -> None:
    scores, example = torch.tensor([2.0, 1.0, 3.0]), torch.tensor([0, 0, 1])
    expected: Tensor = torch.tensor([[False, True, False], [False] * 3, [False] * 3])
    assert torch.equal(above(scores, example), expected)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"name": "dpo", "beta": 0}, "beta: Input should be greater than 0"),
        ({"name": "dpo", "label_smoothing": 0.5}, "label_smoothing: Input should be less than 0.5"),
        ({"name": "dpoo"}, "did you mean 'dpo'"),
        ({"name": "simpo", "eta": 1}, "eta"),
        ({"name": "ranking", "form": "list"}, "form: Input should be 'rrhf' or 'pro'"),
    ],
)
def test_bad_settings_get_one_line(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as raised:
        OperatorSpec.model_validate(spec).resolve(PREFERENCE_LOSS)
    assert "\n" not in str(raised.value)


def test_configs_say_what_a_loss_reads() -> None:
    read = {name: OperatorSpec(name=name).resolve(PREFERENCE_LOSS).config for name in ALL}
    assert all(isinstance(config, PreferenceLossConfig) for config in read.values())
    free = {name for name, config in read.items() if not config.reference}
    assert free == {"cpo", "orpo", "ranking", "simpo"}
    assert {name for name, config in read.items() if config.margins} == {"dynamic_beta", "step_apo"}
