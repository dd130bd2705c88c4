"""Rewards at the token where they are received, and sums along each trajectory from its end.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from components.rl.batch.batch import Batch


def suffix_sum(batch: Batch, value_n: Tensor, factor: float = 1.0) -> Tensor:
    """Return [N]: y_t = v_t + factor * y_(t+1) inside each response, in the dtype of `value_n`; no gradient.

    Computed in float64, position by position from the end, so that a long batch loses no precision.
    """
    width = int(batch.response_lengths.max()) if batch.num_responses else 0
    rows, columns = batch.trace_of, batch.positions
    grid = torch.zeros(width + 1, batch.num_traces, dtype=torch.float64, device=value_n.device)
    grid[columns, rows] = value_n.detach().double()
    for position in range(width - 1, -1, -1):
        grid[position] += factor * grid[position + 1]
    return grid[columns, rows].to(value_n.dtype)


def received(batch: Batch) -> Tensor:
    """Return [N]: the reward received at each token; what no token received comes at the last one."""
    return batch.token_rewards + at_last(batch, batch.rewards - batch.response_sum(batch.token_rewards))


def reward_to_go(batch: Batch) -> Tensor:
    """Return [N]: the reward from each token on, this one's included; without token rewards the whole reward."""
    if not bool(batch.token_rewards.any()):
        return batch.to_tokens(batch.rewards)
    return suffix_sum(batch, received(batch))


def next_in_response(batch: Batch, value_n: Tensor) -> Tensor:
    """Return [N]: the value of the following token of the same response, 0 at each last token."""
    shifted_n = torch.cat([value_n[1:], value_n.new_zeros(1)]) if len(value_n) else value_n
    return shifted_n.masked_fill(is_last(batch), 0.0)


def is_last(batch: Batch) -> Tensor:
    """Return [N] bool: whether a token is the last of its response."""
    return batch.positions == batch.to_tokens(batch.response_lengths) - 1


def at_last(batch: Batch, value_s: Tensor) -> Tensor:
    """Return [N]: the value of each response [S] at its last token, 0 elsewhere, as for an outcome reward."""
    return batch.to_tokens(value_s) * is_last(batch)
