"""How values lie in a batch: per response [S] or per token [N], with sums and means over responses and groups.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import cached_property

import torch
from torch import Tensor


class Layout:
    """The statistics of a batch, from which response belongs to which group and how long each is."""

    prompts: Sized
    """P"""
    group: Tensor
    """[S] int64: index of each response's prompt."""
    lengths: Tensor
    """[S] int64: tokens of each response."""
    tokens: Tensor
    """[N] int64"""

    @property
    def num_prompts(self) -> int:
        """Return P."""
        return len(self.prompts)

    @property
    def num_responses(self) -> int:
        """Return S."""
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """Return N."""
        return len(self.tokens)

    @cached_property
    def response_of(self) -> Tensor:
        """[N] int64: the response that each token belongs to."""
        return torch.repeat_interleave(torch.arange(self.num_responses, device=self.lengths.device), self.lengths)

    @cached_property
    def positions(self) -> Tensor:
        """[N] int64: place of each token in its response, from 0."""
        starts = self.lengths.cumsum(0) - self.lengths
        return torch.arange(self.num_tokens, device=starts.device) - self.to_tokens(starts)

    @cached_property
    def group_sizes(self) -> Tensor:
        """[S] int64: how many responses the group of each response has."""
        return torch.bincount(self.group, minlength=self.num_prompts)[self.group]

    def to_tokens(self, value_s: Tensor) -> Tensor:
        """Give every token the value of its response: [S] -> [N]."""
        return value_s[self.response_of]

    def response_sum(self, value_n: Tensor) -> Tensor:
        """Sum over the tokens of each response: [N] -> [S]."""
        return value_n.new_zeros(self.num_responses).index_add(0, self.response_of, value_n)

    def response_mean(self, value_n: Tensor) -> Tensor:
        """Mean over the tokens of each response: [N] -> [S]."""
        return self.response_sum(value_n) / self.lengths

    def group_sum(self, value_s: Tensor) -> Tensor:
        """Sum over each group, handed to all its members: [S] -> [S]."""
        return value_s.new_zeros(self.num_prompts).index_add(0, self.group, value_s)[self.group]

    def group_mean(self, value_s: Tensor) -> Tensor:
        """Mean over each group, handed to all its members: [S] -> [S]."""
        return self.group_sum(value_s) / self.group_sizes

    def group_is_equal(self, value_s: Tensor) -> Tensor:
        """Tell for each response whether all of its group have the same value: [S] -> [S] bool."""
        empty = value_s.new_zeros(self.num_prompts)
        low = empty.scatter_reduce(0, self.group, value_s, "amin", include_self=False)
        high = empty.scatter_reduce(0, self.group, value_s, "amax", include_self=False)
        return (low == high)[self.group]

    def group_centred(self, value_s: Tensor) -> Tensor:
        """Subtract the group mean: [S] -> [S]; exactly 0, without rounding noise, where a group is all equal."""
        centred = value_s.double() - self.group_mean(value_s.double())
        return centred.masked_fill(self.group_is_equal(value_s), 0.0).to(value_s.dtype)

    def group_std(self, value_s: Tensor, *, ddof: int) -> Tensor:
        """Standard deviation of each group, handed to all its members: [S] -> [S]; 0 where too few to have one."""
        squares = self.group_sum(self.group_centred(value_s.double()).square())
        return (squares / (self.group_sizes - ddof).clamp(min=1)).sqrt().to(value_s.dtype)

    def tokens_of(self, rows: Tensor) -> Tensor:
        """Return where the tokens of the given responses are: indices [S'] -> [N'], in the same order."""
        lengths = self.lengths[rows]
        shift = (self.lengths.cumsum(0) - self.lengths)[rows] - (lengths.cumsum(0) - lengths)
        return torch.repeat_interleave(shift, lengths) + torch.arange(int(lengths.sum()))
