"""What ranks of a tensor group exchange in a pass: f, g and the gathering of Shoeybi et al. 2019 (arXiv:1909.08053), 3.

Each has its own backward: what follows on every rank is the same computation, whose gradient every rank has whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from components.modeling.ranks import ranks_along
from components.runtime.system.mesh import TENSOR


class _Entering(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return summed_(grads[0].clone(memory_format=torch.contiguous_format))


class _Leaving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return summed_(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.cat(parts_of_all(x), -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        ranks = ranks_along(TENSOR)
        return grads[0].chunk(ranks.count, -1)[ranks.index]


def summed_(x: Tensor) -> Tensor:
    """Return x, in its place the sum over the ranks."""
    distributed.all_reduce(x, group=ranks_along(TENSOR).group)
    return x


def parts_of_all(x: Tensor) -> list[Tensor]:
    """Return the ranks' tensors, which have one shape, in order."""
    ranks = ranks_along(TENSOR)
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(ranks.count)]
    distributed.all_gather(parts, x.contiguous(), group=ranks.group)
    return parts


def entering(x: Tensor) -> Tensor:
    """Return x, which all ranks have, for products with each rank's part of a matrix's rows: gradients are summed."""
    return _Entering.apply(x) if torch.is_grad_enabled() else x


def leaving(x: Tensor) -> Tensor:
    """Return the sum of the ranks' products with their parts of a matrix's columns; x is overwritten."""
    return _Leaving.apply(x) if torch.is_grad_enabled() and x.requires_grad else summed_(x)


def gathered(x: Tensor) -> Tensor:
    """Return the ranks' features [N, F / T] side by side, [N, F]."""
    return _Gathered.apply(x) if torch.is_grad_enabled() else torch.cat(parts_of_all(x), -1)
