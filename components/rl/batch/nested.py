"""Rewards inside other rewards' configs.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from components.contract.operators import OperatorSpec
from components.rl.batch.batch import Batch


def nested_reward(spec: OperatorSpec, batch: Batch, context: Any) -> Tensor:
    """Return [S]: what the reward operator of a config says, times its weight; token rewards count by their sum."""
    bound = spec.resolve()
    values: Tensor = bound(batch, context)
    if len(values) == batch.num_tokens != batch.num_responses:
        values = batch.response_sum(values.float())
    weight: float = getattr(bound.config, "weight", 1.0)
    return weight * values
