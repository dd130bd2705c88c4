from __future__ import annotations

import pytest
import torch

from components.modeling.training.schedule import learning_rate
from components.modeling.training.training_config import ScheduleConfig


def rates(total: int, **settings: object) -> list[float]:
    config = ScheduleConfig.model_validate(settings)
    return [learning_rate(config, step, total) for step in range(total)]


def test_constant_with_warm_up() -> None:
    assert rates(5, peak_learning_rate=0.4, warmup_steps=4) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])


def test_linear_falls_to_its_floor_just_after_the_last_step() -> None:
    values = rates(5, peak_learning_rate=1.0, schedule="linear", floor_ratio=0.5)
    assert values == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])


def test_cosine_is_torchs_cosine_after_the_warm_up() -> None:
    values = rates(25, peak_learning_rate=2.0, schedule="cosine", warmup_steps=5, floor_ratio=0.1)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=2.0)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.2)
    for value in values[5:]:
        assert value == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        reference.step()


def test_warm_up_longer_than_the_training_is_no_error() -> None:
    values = rates(2, peak_learning_rate=1.0, schedule="cosine", warmup_steps=4)
    assert values == pytest.approx([0.25, 0.5])


def test_steps_beyond_the_end_stay_at_the_floor() -> None:
    config = ScheduleConfig(peak_learning_rate=1.0, schedule="linear", floor_ratio=0.25)
    assert learning_rate(config, 99, 10) == pytest.approx(0.25)
