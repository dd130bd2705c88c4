"""Scorer losses: values worked by hand, independent references, and TRL's RewardTrainer on one batch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.modeling.loading.load import load_policy
from components.modeling.native.checkpoints.weights import export_weights
from components.modeling.scorers.network import RewardNetwork
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.reward_model.rows import read_units
from components.reward_model.scored import Scored
from components.reward_model.slots import SCORER_LOSS
from components.reward_model.training import Fitting, accumulate
from tests.stages.reward_model.data import inputs, pairs


def bound(name: str, **config: Any) -> Bound:
    return OperatorSpec(name=name, **config).resolve(SCORER_LOSS)


def scored(outputs: list[Any], targets: list[float], row: list[int] | None = None) -> Scored:
    """Return pairs, or what stands at the places of rows."""
    values = torch.tensor(outputs, dtype=torch.float32)
    values = values.reshape(-1, 1) if values.ndim == 1 else values
    if row is None:
        row = [index // 2 for index in range(len(values))]
    return Scored(values, torch.tensor(row), torch.tensor(targets), list(range(max(row) + 1)))


def log_sigmoid(value: float) -> float:
    return -math.log1p(math.exp(-value))


def test_bradley_terry_by_hand() -> None:
    # r = (2, 1), (0, 3): differences 1 and -3; margins 0 and 0.5
    batch = scored([2.0, 1.0, 0.0, 3.0], [0.0, 0.5])
    plain = bound("bradley_terry")(batch)
    assert plain.tolist() == pytest.approx([0.3132617, 3.0485874], abs=1e-6)
    margins = bound("bradley_terry", margin=True)(batch)
    assert margins.tolist() == pytest.approx([0.3132617, -log_sigmoid(-3.5)], abs=1e-6)
    centred = bound("bradley_terry", center_rewards_coefficient=0.1)(batch)
    assert centred.tolist() == pytest.approx([0.3132617 + 0.9, 3.0485874 + 0.9], abs=1e-6)


def test_pointwise_by_hand() -> None:
    # sigmoid(0) = 1/2; sigmoid(ln 3) = 3/4
    batch = scored([0.0, math.log(3)], [1.0, 0.0], [0, 1])
    assert bound("pointwise")(batch).tolist() == pytest.approx([math.log(2), math.log(4)], abs=1e-6)
    squared = bound("pointwise", loss="squared_error", on="score")(scored([0.5, 2.0], [1.0, -1.0], [0, 1]))
    assert squared.tolist() == [0.25, 9.0]


def test_stepwise_by_hand() -> None:
    # p(right) = 3/4, 1/2, 1/4; labels right, half, right
    batch = scored([[0.0, math.log(3)], [1.0, 1.0], [math.log(3), 0.0]], [1.0, 0.5, 1.0], [0, 0, 1])
    assert bound("stepwise")(batch).tolist() == pytest.approx([math.log(4 / 3), math.log(2), math.log(4)], abs=1e-6)


def test_value_is_the_same_target_at_every_token() -> None:
    batch = scored([0.0, math.log(3), 0.0], [1.0, 0.0], [0, 0, 1])
    assert bound("value")(batch).tolist() == pytest.approx([math.log(2), math.log(4 / 3), math.log(2)], abs=1e-6)
    squared = bound("value", loss="squared_error")(batch)
    assert squared.tolist() == pytest.approx([1.0, (math.log(3) - 1) ** 2, 0.0], abs=1e-6)


def test_progress_sum_reads_the_outcome_of_the_last_step() -> None:
    batch = scored([0.5, 0.25, 1.0, 2.0, -1.0], [0.0, 1.0, 1.0, 1.0, 0.0], [0, 0, 1, 2, 2])
    # sums .75, 1, 1; outcomes 1, 1, 0
    assert bound("progress_sum")(batch).tolist() == pytest.approx([0.0625, 0.0, 1.0])


def test_gaussian_ensemble_by_hand() -> None:
    # two heads, spreads 1: variance 2; differences 1 and -2, over sqrt(1 + pi / 4) = 1.336188
    batch = scored([[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]], [0.0])
    expected = -(log_sigmoid(1 / 1.3361879) + log_sigmoid(-2 / 1.3361879)) / 2
    assert bound("gaussian_ensemble", heads=2, share=1.0)(batch).tolist() == pytest.approx([expected], abs=1e-6)


def test_the_spread_of_a_head_is_bounded() -> None:
    # log standard deviation 3 tanh(3 / 3) = 2.2847826, variance of the difference 2 exp(4.5695652)
    batch = scored([[1.0, 1.0, 3.0, 3.0], [0.0, 0.0, 3.0, 3.0]], [0.0])
    variance = 2 * math.exp(2 * 3 * math.tanh(1.0))
    expected = -log_sigmoid(1 / math.sqrt(1 + math.pi / 8 * variance))
    assert bound("gaussian_ensemble", heads=2, share=1.0)(batch).tolist() == pytest.approx([expected], abs=1e-6)
    for size in (50.0, 1e4, 1e30):  # without a bound exp(2 * 50) overflows
        rows = torch.tensor([[1.0, 2.0, size, -size], [2.0, 1.0, size, -size]], requires_grad=True)
        loss = bound("gaussian_ensemble", heads=2, share=1.0)(Scored(rows, torch.tensor([0, 0]), torch.zeros(1), [0]))
        loss.sum().backward()
        assert bool(loss.isfinite().all()) and rows.grad is not None and bool(rows.grad.isfinite().all())
        assert bool((rows.grad[:, :2] != 0).all()), "means go on learning where spreads are at their bound"


def test_gaussian_ensemble_is_near_the_mean_preference_of_drawn_rewards() -> None:
    means, spreads = (1.5, 0.25), (0.8, 0.6)
    rng = np.random.default_rng(0)
    drawn = [rng.normal(mean, spread, 400_000) for mean, spread in zip(means, spreads, strict=True)]
    reference = -math.log(float(np.mean(1 / (1 + np.exp(drawn[1] - drawn[0])))))
    rows = [[mean, mean, math.log(spread), math.log(spread)] for mean, spread in zip(means, spreads, strict=True)]
    found = float(bound("gaussian_ensemble", heads=2, share=1.0)(scored(rows, [0.0])))
    assert found == pytest.approx(reference, rel=0.02)


def test_heads_of_an_ensemble_learn_from_pairs_of_their_own() -> None:
    count, heads = 2000, 4
    outputs = torch.zeros(2 * count, 2 * heads, requires_grad=True)
    batch = Scored(outputs, torch.arange(count).repeat_interleave(2), torch.zeros(count), list(range(count)), seed=3)
    operator = bound("gaussian_ensemble", heads=heads, share=0.7)
    operator(batch).sum().backward()
    assert outputs.grad is not None
    learned = outputs.grad.view(count, 2, 2, heads)[:, 0, 0] != 0
    assert learned.float().mean(0).tolist() == pytest.approx([0.7] * heads, abs=0.04)
    assert len({tuple(row) for row in learned.tolist()}) == 16
    again = Scored(outputs.detach()[2:4], torch.tensor([0, 0]), torch.zeros(1), [1], seed=3)
    assert torch.equal(operator(again), operator(batch)[1:2].detach())  # whatever else is in the pass


@given(
    rewards=st.lists(st.tuples(st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 3)), min_size=1, max_size=8),
    coefficient=st.one_of(st.none(), st.floats(0.001, 1)),
)
def test_bradley_terry_is_trls_formula(rewards: list[tuple[float, float, float]], coefficient: float | None) -> None:
    chosen, rejected, margin = (torch.tensor(values) for values in zip(*rewards, strict=True))
    theirs = -torch.nn.functional.logsigmoid(chosen - rejected - margin).mean()
    if coefficient is not None:
        theirs = theirs + coefficient * torch.mean((chosen + rejected) ** 2)
    batch = scored(torch.stack([chosen, rejected], 1).flatten().tolist(), margin.tolist())
    ours = bound("bradley_terry", margin=True, center_rewards_coefficient=coefficient)(batch).mean()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("max_tokens", [10_000, 40])
def test_loss_and_gradient_are_those_of_trls_trainer_on_one_batch(tmp_path: Path, max_tokens: int) -> None:
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    given = inputs(tmp_path, [{"margin": 0.0, **row} for row in pairs(12)])
    operator = bound("bradley_terry", margin=True, center_rewards_coefficient=0.02)
    policy = load_policy(given["model"])
    network = RewardNetwork(policy, operator.config.layout(), seed=5)  # type: ignore[attr-defined]
    policy.save(tmp_path / "scorer")
    units = read_units(policy, [given["dataset"]], operator.config)  # type: ignore[arg-type]
    trainer = build_trainer(policy, OptimizerConfig(), total_steps=1)
    fitting = Fitting(network, units, operator)
    loss, _ = accumulate(trainer, fitting, units, max_tokens=max_tokens, seed=0)

    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "scorer", dtype=torch.float32)
    rows = [
        {
            "chosen_ids": list(unit.readings[0].tokens),
            "rejected_ids": list(unit.readings[1].tokens),
            "margin": unit.targets[0],
        }
        for unit in units
    ]
    theirs = RewardTrainer(
        model=model,
        args=RewardConfig(
            output_dir=str(tmp_path / "trl"),
            center_rewards_coefficient=0.02,
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
        processing_class=policy.tokenizer,
        train_dataset=Dataset.from_list(rows),
    )
    expected = theirs.compute_loss(model, theirs.data_collator(rows))
    expected.backward()
    assert loss == pytest.approx(float(expected), abs=1e-5)
    assert any(unit.targets[0] for unit in units)
    ours = _gradients(network)
    named = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert ours.keys() == named.keys()
    for name, gradient in named.items():
        assert gradient is not None
        torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=1e-4, msg=name)
    assert float(ours["score.weight"].abs().max()) > 1e-3


def _gradients(network: RewardNetwork) -> dict[str, Tensor]:
    """Return the gradients of all weights by their names in transformers: the layouts differ by permutations alone."""
    module = network.policy.module
    with torch.no_grad():
        head = network.head.weight.grad
        assert head is not None
        for parameter in module.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    return {**export_weights(module), "score.weight": head.clone()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("bradley_terry", {"center_rewards_coefficient": 0}, "greater than 0"),
        ("gaussian_ensemble", {"heads": 1}, "greater than or equal to 2"),
        ("pointwise", {"loss": "hinge"}, "cross_entropy"),
        ("stepwise", {"separator": ""}, "at least 1 character"),
    ],
)
def test_bad_settings_are_refused(name: str, config: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, ValidationError), match=words):
        bound(name, **config)
