"""The interface of training backends: what a loop does with gradients and optimiser, whoever shares the work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks
from components.modeling.training.optimizer import Update

P = TypeVar("P")
R = TypeVar("R")


class Trainer(ABC):
    """Gradients of a policy over micro-batches, then one update; every rank calls everything with equal arguments."""

    policy: Policy
    ranks: Ranks
    total_steps: int
    """Updates of the learning-rate schedule; may be set anew when a schedule begins."""

    @abstractmethod
    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of all parts' losses; return what `loss_of` says of each part, in order, on every rank.

        `loss_of` gives a part's share of the whole loss, a scalar, and a remark that can be pickled. Denominators are
        global: the loss of a batch is the plain sum over its parts, whichever rank computes them.
        """

    @abstractmethod
    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the gradients as update number `step`, counted from 0, and clear them.

        `scale` multiplies the scheduled learning rate. Raises StageFailed when the gradient is not finite.
        """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the whole optimiser state as "<kind>/<parameter name>" -> tensor; all ranks must call it.

        The first rank gets it; another may get {}, so that a host holds it once. It is the same whatever the number of
        ranks, so a checkpoint resumes at another.
        """

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; {} forgets all averages. The policy's weights are loaded before."""

    def whole(self) -> AbstractContextManager[None]:
        """Return a context in which every rank holds all weights: to sample, to score, to copy and to save."""
        return nullcontext()

    @property
    def num_parameters(self) -> int:
        """Return how many weights the policy has, trained or not."""
        with self.whole():
            return sum(p.numel() for p in self.policy.module.parameters())

    def save(self, folder: Path) -> None:
        """Write the policy as a Hugging Face folder; the first rank alone writes."""
        with self.whole():
            if self.ranks.first:
                self.policy.save(folder)
