"""Checks of what operators return, so that a wrong value names its operator and not the loop."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.rl.batch.batch import Batch
from components.rl.batch.completions import numbers

T = TypeVar("T")


def of_kind(bound: Bound, value: Any, kind: type[T]) -> T:
    """Return the value; raise OperatorFailed if it is not of that class."""
    if not isinstance(value, kind):
        raise bound.failed(f"returned {_a(type(value).__name__)}, expected {_a(kind.__name__)}")
    return value


def rewards_of(bound: Bound, value: Any, batch: Batch) -> Tensor:
    """Return [S] or [N]; raise OperatorFailed for anything but a finite number or NaN for each row or token.

    NaN means that the operator could not say. One in a user's file may return a list or an array, with a number for
    each row.
    """
    if bound.file and not isinstance(value, Tensor):
        value = torch.tensor(numbers(bound.file, value, batch.num_responses), dtype=torch.float32)
    return _numbers(bound, value, batch, nan=True)


def combined_of(bound: Bound, value: Any, batch: Batch, *, nan: bool = False) -> Tensor:
    """Return [S] or [N]; raise OperatorFailed for anything but a finite number, or NaN, for each row or token."""
    return _numbers(bound, value, batch, nan=nan)


def advantages_of(bound: Bound, value: Any, batch: Batch) -> Batch | Tensor:
    """Return a batch, [S] or [N]; raise OperatorFailed for anything else, or for a number that is not finite."""
    if isinstance(value, Batch):
        return value
    return _numbers(bound, value, batch)


def prompts_of(bound: Bound, value: Any, count: int) -> list[int]:
    """Return indices into a pool of `count` prompts; raise OperatorFailed for anything else."""
    indices = [int(index) for index in value] if isinstance(value, list | tuple | Tensor) else None
    if indices is None:
        raise bound.failed(f"returned {_a(type(value).__name__)}, expected a list of indices into the pool")
    if wrong := [index for index in indices if not 0 <= index < count]:
        raise bound.failed(f"returned the index {wrong[0]} into a pool of {count} prompts")
    return indices


def _numbers(bound: Bound, value: Any, batch: Batch, *, nan: bool = False) -> Tensor:
    found = of_kind(bound, value, Tensor)
    if found.dim() != 1 or len(found) not in (batch.num_responses, batch.num_tokens):
        given = f"{batch.num_responses} responses with {batch.num_tokens} tokens"
        raise bound.failed(f"returned a tensor of shape {list(found.shape)} for {given}")
    bad = (torch.isinf(found) if nan else ~torch.isfinite(found.float())).nonzero()
    if len(bad):
        at = int(bad[0])
        raise bound.failed(f"returned {found[at].item()} at position {at}, expected finite numbers")
    return found


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
