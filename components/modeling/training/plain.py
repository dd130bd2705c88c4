"""Plain torch: one process, or replicas that sum their gradients and make the same update (ZeRO 0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, distributed

from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks
from components.modeling.training.optimizer import Optimizer, Update
from components.modeling.training.shards import share_of
from components.modeling.training.trainer import P, R, Trainer

BUCKET_ELEMENTS = 1 << 26
"""Most gradient elements in one message."""


class TorchTrainer(Trainer):
    """One process."""

    def __init__(self, policy: Policy, optimizer: Optimizer, ranks: Ranks | None = None) -> None:
        self.policy, self.optimizer, self.ranks = policy, optimizer, ranks or Ranks()

    @property
    def total_steps(self) -> int:
        """Return the updates of the learning-rate schedule."""
        return self.optimizer.total_steps

    @total_steps.setter
    def total_steps(self, value: int) -> None:
        self.optimizer.total_steps = value

    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of all parts' losses."""
        remarks = []
        with self.optimizer.accumulating():
            for part in parts:
                loss, remark = loss_of(part)
                loss.backward()
                remarks.append(remark)
        return remarks

    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the gradients and clear them."""
        return self.optimizer.step(step, scale=scale)

    def state(self) -> dict[str, Tensor]:
        """Return this rank's part of the optimiser's state, which all ranks hold."""
        return share_of(self.optimizer.state(), self.ranks)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.optimizer.load_state(state)


class ReplicaTrainer(TorchTrainer):
    """Every rank holds the whole model and optimiser; micro-batches are distributed and gradients summed.

    ZeRO's stage 0. Any optimiser works, Muon included: all ranks make the same update.
    """

    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of this rank's parts' losses; they are summed over ranks by `step`."""
        return self.ranks.together(self.ranks.gather(super().accumulate(self.ranks.share(parts), loss_of)))

    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Sum the gradients over ranks, apply them and clear them."""
        self._sum_gradients()
        return super().step(step, scale=scale)

    def _sum_gradients(self) -> None:
        """Sum over ranks; a parameter has a gradient afterwards if it had one on any rank."""
        trained = self.optimizer.trained.values()
        here = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32, device=self.policy.device)
        distributed.all_reduce(here, op=distributed.ReduceOp.MAX)
        used = [p for p, anywhere in zip(trained, here.tolist(), strict=True) if anywhere]
        for parameter in used:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in _buckets(used):
            gradients = [p.grad for p in bucket if p.grad is not None]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            distributed.all_reduce(flat)
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))


def _buckets(parameters: Sequence[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    """Group parameters, in order, into messages of bounded size."""
    buckets: list[list[torch.nn.Parameter]] = []
    size = BUCKET_ELEMENTS
    for parameter in parameters:
        if size + parameter.numel() > BUCKET_ELEMENTS:
            buckets.append([])
            size = 0
        buckets[-1].append(parameter)
        size += parameter.numel()
    return buckets
