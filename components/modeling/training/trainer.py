"""The interface of training backends: gradients and updates, however the work is distributed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from components.modeling.models.policy import Gather, Policy, held
from components.modeling.ranks import Ranks
from components.modeling.training.optimizer import Update
from components.modeling.training.shards import share_of

P = TypeVar("P")
R = TypeVar("R")


class Trainer(ABC):
    """Gradients of a policy over micro-batches, then one update; all ranks call every method with equal arguments."""

    policy: Policy
    ranks: Ranks
    total_steps: int
    """Updates of the learning-rate schedule; may be changed when a new schedule begins."""

    @abstractmethod
    def accumulate(self, parts: Sequence[P], loss_of: Callable[[P], tuple[Tensor, R]]) -> list[R]:
        """Add the gradients of all parts' losses; return each part's remark, in order, on every rank.

        `loss_of` returns a part's share of the whole loss, a scalar, and a remark that can be pickled. Denominators are
        global: the loss of a batch is the plain sum over its parts, whichever rank computes them.
        """

    @abstractmethod
    def step(self, step: int, *, scale: float = 1.0) -> Update:
        """Apply the gradients as update number `step`, counted from 0, and clear them.

        `scale` multiplies the scheduled learning rate. Raises NotFiniteError when the gradient is not finite.
        """

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return this rank's part of the optimiser state; all ranks must call it.

        "<kind>/<parameter name>" -> tensor, or "<kind>/<parameter name>@<first element>" -> [n] a piece of the
        flattened tensor. All ranks' parts together are the whole state (`joined` of shards.py) for any number of ranks.
        """

    @abstractmethod
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the whole state from `joined` parts; {} resets all averages. Load the policy's weights first."""

    def whole(self) -> AbstractContextManager[None]:
        """Return a context in which every rank holds all weights: to sample, to score, to copy and to save."""
        return nullcontext()

    @property
    def gather(self) -> Gather:
        """What holds the weights of some modules whole, for `Policy.named_weights`; nothing to do inside `whole`."""
        return held

    def evaluate(self, compute: Callable[[], R]) -> R:
        """Return what `compute` returns from forward passes of the policy; it makes the same ones on all ranks."""
        with self.whole():
            return compute()

    def roll_out(self, compute: Callable[[], R]) -> R:
        """Return what `compute` returns from drawing and scoring with the policy, and from copying it.

        All ranks must call it. Ranks make equal passes, but for those inside of `equal_passes`.
        """
        with self.whole():
            return compute()

    def weights(self) -> dict[str, Tensor]:
        """Return copies on the CPU of this rank's part of the trained weights, for a checkpoint.

        Whole tensors by name, or pieces as "<name>@<first element>" -> [n]; `shards.joined` puts them together.
        """
        with self.whole():
            return share_of(self.policy.state(), self.ranks)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Restore all ranks' parts, joined; every rank gets all of them."""
        with self.whole():
            self.policy.load_state(weights)

    @property
    def elements(self) -> Callable[[str], range] | None:
        """Which elements of a trained parameter, flattened, this rank saves and restores, if ranks cut them by rows.

        Then `load_weights` and `load_state` may be given tensors that hold nothing but those, and states of the
        parameters of which it has any. None: this rank needs all parts.
        """
        return None

    @property
    def num_parameters(self) -> int:
        """Return how many weights the policy has, trained or not."""
        with self.whole():
            return sum(p.numel() for p in self.policy.module.parameters())

    def save(self, folder: Path) -> None:
        """Write the policy as a Hugging Face folder; only the first rank writes."""
        with self.whole():
            if self.ranks.first:
                self.policy.save(folder)
