"""Rewards inside other rewards' configs.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from components.contract.operators import OperatorSpec
from components.rl.batch.batch import Batch
from components.rl.batch.reward_part import part_of


def nested_reward(spec: OperatorSpec, batch: Batch, context: Any) -> Tensor:
    """Return [S]: what the reward operator of a config says, times its weight; token rewards count by their sum."""
    bound = spec.resolve()
    weight: float = getattr(bound.config, "weight", 1.0)
    return part_of(bound.name, weight, bound(batch, context), batch).weighted
