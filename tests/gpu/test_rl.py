"""GRPO on a tiny task, through the rl stage: the reward rises, in float32 and in bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.rl.component import COMPONENT
from tests.gpu.device import DEVICE
from tests.gpu.models import letters_model
from tests.stages.rl_stage import item
from tests.support.stage_context import run_stage, write_jsonl

pytestmark = pytest.mark.gpu

STEPS = 25
PARAMS: dict[str, Any] = {
    "method": "grpo",
    "steps": STEPS,
    "prompts_per_step": 8,
    "group_size": 16,
    "max_new_tokens": 4,
    "start_kl_every": 5,
    "rewards": [{"name": "pattern", "pattern": "^[a-e]"}],
    "optimizer": {"peak_learning_rate": 5e-3, "warmup_steps": 2},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_reward_rises(dtype: str, tmp_path: Path) -> None:
    """A tenth of what a random model writes begins with one of five letters; it learns to."""
    inputs = {"model": letters_model(tmp_path / "model"), "dataset": [write_jsonl(tmp_path / "data", rows())]}
    done = run_stage(COMPONENT, tmp_path / "rl", params={**PARAMS, "dtype": dtype}, inputs=inputs, device=DEVICE)
    rewards = [row["reward_mean"] for row in done.history]
    assert sum(rewards[:2]) / 2 < 0.3
    assert sum(rewards[-3:]) / 3 > 0.8
    assert done.history[-1]["start_kl_k3"] > 0.1  # it went away from where it began
    assert done.history[0]["ratio_max"] == pytest.approx(1, abs=1e-4 if dtype == "float32" else 2e-2)


def rows() -> list[dict[str, Any]]:
    """Return prompts."""
    return [item(index) for index in range(16)]
