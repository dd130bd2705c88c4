"""What a loss of preferences reads and returns.

Shapes: E examples, S responses, example after example; of pairs, the chosen response comes before the rejected one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The responses of some examples of a batch."""

    logprobs: Tensor
    """[S] log-probability of each response under the policy, summed over its tokens; differentiable."""
    reference: Tensor
    """[S] the same under the reference; zeros for a loss that does not read it."""
    lengths: Tensor
    """[S] compared tokens of each response, its end included."""
    scores: Tensor
    """[S] how good each is, against others of its example, as a rank from 0; of labels, 1 if desirable, else 0."""
    example: Tensor
    """[S] which example each belongs to."""
    margins: Tensor
    """[E] how much better the chosen one is, as the row says; zeros for a loss that does not read it."""
    divergence: Tensor
    """[] the batch's estimate of the divergence from the reference, from 0; 0 for a loss that does not read it."""

    @property
    def num_examples(self) -> int:
        """Return E."""
        return self.margins.shape[0]

    def log_ratios(self, *, per_token: bool = False) -> Tensor:
        """Return [S]: log pi - log pi_ref of each response, or its mean over the response's tokens."""
        ratios = self.logprobs - self.reference
        return ratios / self.lengths if per_token else ratios

    def mean_logprobs(self) -> Tensor:
        """Return [S]: the mean log-probability of a token of each response."""
        return self.logprobs / self.lengths


def gap(values: Tensor) -> Tensor:
    """Return [E]: what the chosen response of each pair has above the rejected one, of `values` [S]."""
    return values[0::2] - values[1::2]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The losses of some examples."""

    loss: Tensor
    """[E], differentiable."""
    margin: Tensor
    """[E] how clearly the loss finds the better response better: above 0 where it does."""
    accuracy: Tensor | None = None
    """[E] share of an example's comparisons that are ranked right; None: whether the margin is above 0."""

    @property
    def right(self) -> Tensor:
        """Return [E]: the accuracy of each example."""
        return (self.margin > 0).to(self.margin.dtype) if self.accuracy is None else self.accuracy
