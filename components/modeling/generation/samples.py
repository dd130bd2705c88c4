"""Samples: what generation returns.

Shapes: S samples (rows), T response tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Responses with their log-probabilities and entropies; sample s of prompt p is row p * num_samples + s."""

    tokens: Tensor
    """[S, T] response tokens, padded with the policy's pad id."""
    lengths: Tensor
    """[S] response tokens, end mark counted."""
    logprobs: Tensor
    """[S, T] log-probability of each token under the distribution it was drawn from; 0 at padding."""
    entropies: Tensor
    """[S, T] entropy in nats of the policy's own distribution (temperature 1); 0 at padding."""
    prompt_index: Tensor
    """[S] prompt of each row."""
    finished: Tensor
    """[S] whether an end mark was emitted."""
    sampled: Tensor
    """[S, T] False at padding and at tokens that a prefix forced."""
    num_samples: int
    """Rows per prompt."""
    policy_logprobs: Tensor | None = None
    """[S, T] the policy's own log-probabilities at the sampling temperature if an engine drew; else see `logprobs`."""

    def responses(self) -> list[list[int]]:
        """Return the token ids of each row."""
        return [row[:n] for row, n in zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)]

    def grouped(self) -> list[list[list[int]]]:
        """Return the token ids of each row, by prompt (what Packed.from_groups takes)."""
        rows = self.responses()
        return [rows[at : at + self.num_samples] for at in range(0, len(rows), self.num_samples)]

    def flat(self, values: Tensor) -> Tensor:
        """Return values [S, T] without padding, row after row (in the order of Packed's targets)."""
        return values[torch.arange(values.shape[1]) < self.lengths.unsqueeze(1)]
