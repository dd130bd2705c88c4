from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from components.modeling.training.optimizer import Optimizer, OptimizerConfig, build_optimizer

torch.set_num_threads(1)  # equal bits are promised for one thread


def build(module: nn.Module, **settings: object) -> Optimizer:
    given = {"weight_decay": 0.0, "clip_norm": None, "schedule": "constant", "warmup_steps": 0, **settings}
    return build_optimizer(module, OptimizerConfig.model_validate(given), total_steps=50)


def one_weight(dtype: torch.dtype) -> nn.Linear:
    module = nn.Linear(1, 1, bias=False, dtype=dtype)
    nn.init.ones_(module.weight)
    return module


def descend(module: nn.Linear, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        module(torch.ones(1, 1, dtype=module.weight.dtype)).sum().backward()  # the gradient is 1
        optimizer.step(step)


def test_updates_below_a_weights_last_bit_add_up() -> None:
    # Below 1, bfloat16 counts in steps of 1/256; of a constant gradient, an update of AdamW is the learning rate.
    module = one_weight(torch.bfloat16)
    optimizer = build(module, peak_learning_rate=0.001)
    descend(module, optimizer, range(1))
    assert module.weight.item() == 1.0
    assert optimizer.state()["master/weight"].item() == pytest.approx(0.999, abs=1e-6)
    descend(module, optimizer, range(1, 8))
    assert optimizer.state()["master/weight"].item() == pytest.approx(0.992, abs=1e-6)
    assert module.weight.item() == 1 - 2 / 256  # the nearest to 0.992
    alone = one_weight(torch.bfloat16)
    plain = torch.optim.AdamW(alone.parameters(), lr=0.001, weight_decay=0.0)
    for _ in range(8):
        alone.weight.grad = torch.ones_like(alone.weight)
        plain.step()
    assert alone.weight.item() == 1.0  # without a copy all eight are lost


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_copies_move_as_float32_weights_under_the_same_gradients(name: str) -> None:
    torch.manual_seed(0)
    low = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)).bfloat16()
    high = copy.deepcopy(low).float()
    ours, theirs = (build(module, name=name, peak_learning_rate=0.01) for module in (low, high))
    for step in range(6):
        low(torch.randn(7, 5, dtype=torch.bfloat16)).square().mean().backward()
        for mine, twin in zip(low.parameters(), high.parameters(), strict=True):
            assert mine.grad is not None
            twin.grad = mine.grad.float()
        ours.step(step)
        theirs.step(step)
        for key, twin in high.named_parameters():
            assert torch.equal(ours.state()[f"master/{key}"], twin)
            assert torch.equal(low.get_parameter(key), twin.bfloat16())


def test_a_saved_state_goes_on_bit_for_bit() -> None:
    straight = one_weight(torch.bfloat16)
    descend(straight, done := build(straight, peak_learning_rate=0.0007), range(20))
    first = one_weight(torch.bfloat16)
    descend(first, before := build(first, peak_learning_rate=0.0007), range(9))
    second = copy.deepcopy(first)
    state = {key: value.clone() for key, value in before.state().items()}
    after = build(second, peak_learning_rate=0.0007)
    after.load_state(state)
    descend(second, after, range(9, 20))
    assert torch.equal(second.weight, straight.weight)
    assert all(torch.equal(after.state()[key], value) for key, value in done.state().items())


def test_a_state_without_copies_starts_from_the_models_weights() -> None:
    module = one_weight(torch.bfloat16)
    optimizer = build(module, peak_learning_rate=0.001)
    descend(module, optimizer, range(3))
    averages = {key: value for key, value in optimizer.state().items() if not key.startswith("master/")}
    with torch.no_grad():
        module.weight.fill_(0.5)
    optimizer.load_state(averages)
    assert optimizer.state()["master/weight"].item() == 0.5


def test_precise_weights_have_no_copies() -> None:
    module = one_weight(torch.float32)
    optimizer = build(module, peak_learning_rate=0.001)
    descend(module, optimizer, range(2))
    assert {key.partition("/")[0] for key in optimizer.state()} == {"step", "exp_avg", "exp_avg_sq"}


def test_weights_without_a_copy_take_what_another_trainer_had_in_float32() -> None:
    module = one_weight(torch.float32)
    build(module, peak_learning_rate=0.001).load_state({"master/weight": torch.full((1, 1), 0.7001)})
    assert module.weight.item() == pytest.approx(0.7001, abs=1e-7)  # bfloat16 would make it 0.69921875


def test_gradients_add_up_in_float32_inside_and_outside_are_left_alone() -> None:
    module = one_weight(torch.bfloat16)
    optimizer = build(module, peak_learning_rate=0.001)
    with optimizer.accumulating():
        for _ in range(300):
            module(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
        assert module.weight.grad is None  # held once
    module(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
    assert module.weight.grad is not None
    assert optimizer.step(0).grad_norm == 301  # in bfloat16, 256 + 1 is 256
