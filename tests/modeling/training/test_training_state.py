from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from components.contract.errors import CorruptArtifact
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.training.build import build_trainer
from components.modeling.training.optimizer import OptimizerConfig, build_optimizer
from components.modeling.training.plain import TorchTrainer
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state


def tiny_policy(seed: int = 0) -> Policy:
    config = ModelConfig(width=16, layers=1, heads=2, mlp_width=24)
    return new_policy(config, tokenizer=train_tokenizer([], {}), seed=seed)


def draws(generators: dict) -> list[float]:
    """One number from each generator, the global ones included."""
    return [
        torch.rand(1).item(),
        random.random(),
        np.random.random(),
        torch.rand(1, generator=generators["torch"]).item(),
        generators["python"].random(),
        generators["numpy"].random(),
        generators["mt"].random(),
    ]


def generators(seed: int) -> dict:
    return {
        "torch": torch.Generator().manual_seed(seed),
        "python": random.Random(seed),
        "numpy": np.random.default_rng(seed),
        "mt": np.random.Generator(np.random.MT19937(seed)),
    }


def test_every_random_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    policy, ours = tiny_policy(), generators(1)
    draws(ours)
    random.gauss(0, 1)  # leaves a cached half of a pair behind
    save_training_state(tmp_path, TrainingState(3), policy=policy, generators=ours)()
    expected = [*draws(ours), random.gauss(0, 1)]
    other = generators(2)
    load_training_state(tmp_path, policy=policy, generators=other)
    assert [*draws(other), random.gauss(0, 1)] == expected


def test_step_extra_weights_and_optimizer_come_back(tmp_path: Path) -> None:
    policy, other = tiny_policy(0), tiny_policy(1)
    config = OptimizerConfig(name="muon")
    ours, theirs = (build_optimizer(p.module, config, total_steps=9) for p in (policy, other))
    for parameter in policy.module.parameters():
        parameter.grad = torch.ones_like(parameter)
    ours.step(0)
    save_training_state(
        tmp_path, TrainingState(7, {"seen": [1, 2], "loss": 0.1}), policy=policy, trainer=TorchTrainer(policy, ours)
    )()
    assert load_training_state(tmp_path, policy=other, trainer=TorchTrainer(other, theirs)) == TrainingState(
        7, {"seen": [1, 2], "loss": 0.1}
    )
    for a, b in zip(policy.state().values(), other.state().values(), strict=True):
        assert torch.equal(a, b)
    mine, restored = ours.state(), theirs.state()
    assert set(mine) == set(restored)
    assert all(torch.equal(mine[key], restored[key]) for key in mine)


def test_nothing_is_pickled(tmp_path: Path) -> None:
    policy = tiny_policy()
    save_training_state(
        tmp_path,
        TrainingState(0),
        policy=policy,
        trainer=build_trainer(policy, OptimizerConfig(), total_steps=1),
    )()
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json"}


def test_a_missing_generator_is_named(tmp_path: Path) -> None:
    policy = tiny_policy()
    save_training_state(tmp_path, TrainingState(0), policy=policy)()
    with pytest.raises(CorruptArtifact, match="'sampling'"):
        load_training_state(tmp_path, policy=policy, generators={"sampling": torch.Generator()})
