"""The layout of values in a batch: per row [S] or per token [N], with sums and means over trajectories and groups.

A response is a trajectory: one row, or several adjacent ones. Its statistics are copied to all its rows, and a group
counts it once. If every trajectory is one row, each sum is taken over the rows themselves.
Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import cached_property

import torch
from torch import Tensor


class Layout:
    """Statistics of a batch, computed from the trajectory, group and length of each row."""

    prompts: Sized
    """P"""
    group: Tensor
    """[S] int64: index of each row's prompt."""
    trace: Tensor
    """[S] int64: trajectory of each row."""
    lengths: Tensor
    """[S] int64: tokens of each row."""
    tokens: Tensor
    """[N] int64"""

    @property
    def num_prompts(self) -> int:
        """Return P."""
        return len(self.prompts)

    @property
    def num_responses(self) -> int:
        """Return S, the rows."""
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """Return N."""
        return len(self.tokens)

    @cached_property
    def num_traces(self) -> int:
        """Return T, the trajectories."""
        return int(self.trace[-1]) + 1 if len(self.trace) else 0

    @property
    def one_row_each(self) -> bool:
        """Whether every trajectory is one row."""
        return self.num_traces == self.num_responses

    @cached_property
    def first_rows(self) -> Tensor:
        """[T] int64: the first row of each trajectory."""
        starts = torch.ones_like(self.trace, dtype=torch.bool)
        starts[1:] = self.trace[1:] != self.trace[:-1]
        return starts.nonzero().squeeze(1)

    @cached_property
    def last_rows(self) -> Tensor:
        """[T] int64: the last row of each trajectory."""
        ends = torch.ones_like(self.trace, dtype=torch.bool)
        ends[:-1] = self.trace[1:] != self.trace[:-1]
        return ends.nonzero().squeeze(1)

    @cached_property
    def response_of(self) -> Tensor:
        """[N] int64: the row of each token."""
        return torch.repeat_interleave(torch.arange(self.num_responses, device=self.lengths.device), self.lengths)

    @cached_property
    def trace_of(self) -> Tensor:
        """[N] int64: the trajectory of each token."""
        return self.response_of if self.one_row_each else self.trace[self.response_of]

    @cached_property
    def response_lengths(self) -> Tensor:
        """[S] int64: tokens of the trajectory of each row."""
        if self.one_row_each:
            return self.lengths
        return self.lengths.new_zeros(self.num_traces).index_add(0, self.trace, self.lengths)[self.trace]

    @cached_property
    def positions(self) -> Tensor:
        """[N] int64: position of each token in its trajectory, from 0."""
        if self.one_row_each:
            starts = self.lengths.cumsum(0) - self.lengths
        else:
            lengths = self.response_lengths[self.first_rows]
            starts = (lengths.cumsum(0) - lengths)[self.trace]
        return torch.arange(self.num_tokens, device=starts.device) - self.to_tokens(starts)

    @cached_property
    def group_sizes(self) -> Tensor:
        """[S] int64: number of trajectories in the group of each row."""
        counted = self.group if self.one_row_each else self.group[self.first_rows]
        return torch.bincount(counted, minlength=self.num_prompts)[self.group]

    def of_traces(self, value_s: Tensor) -> Tensor:
        """Return the value of each trajectory, shared by its rows: [S] -> [T]."""
        return value_s if self.one_row_each else value_s[self.first_rows]

    def any_of_traces(self, chosen_s: Tensor) -> Tensor:
        """Return which trajectories have any chosen row: [S] bool -> [T] bool."""
        if self.one_row_each:
            return chosen_s
        return torch.zeros(self.num_traces, dtype=torch.long).index_add(0, self.trace, chosen_s.long()) > 0

    def to_rows(self, value_t: Tensor) -> Tensor:
        """Give every row the value of its trajectory: [T] -> [S]."""
        return value_t if self.one_row_each else value_t[self.trace]

    def to_tokens(self, value_s: Tensor) -> Tensor:
        """Give every token the value of its row: [S] -> [N]."""
        return value_s[self.response_of]

    def by_trace(self, value_n: Tensor) -> tuple[Tensor, ...]:
        """Split values by trajectory: [N] -> T tensors."""
        parts: tuple[Tensor, ...] = value_n.split(self.of_traces(self.response_lengths).tolist())
        return parts

    def response_sum(self, value_n: Tensor) -> Tensor:
        """Sum over the tokens of each trajectory, copied to its rows: [N] -> [S]."""
        return self.to_rows(value_n.new_zeros(self.num_traces).index_add(0, self.trace_of, value_n))

    def response_mean(self, value_n: Tensor) -> Tensor:
        """Mean over the tokens of each trajectory, copied to its rows: [N] -> [S]."""
        return self.response_sum(value_n) / self.response_lengths

    def response_max(self, value_n: Tensor) -> Tensor:
        """Maximum over the tokens of each trajectory, at least 0, copied to its rows: [N] -> [S]."""
        return self.to_rows(value_n.new_zeros(self.num_traces).scatter_reduce(0, self.trace_of, value_n, "amax"))

    def group_sum(self, value_s: Tensor) -> Tensor:
        """Sum over the trajectories of each group, copied to all its rows: [S] -> [S]."""
        empty = value_s.new_zeros(self.num_prompts)
        return empty.index_add(0, self.of_traces(self.group), self.of_traces(value_s))[self.group]

    def group_mean(self, value_s: Tensor) -> Tensor:
        """Mean over the trajectories of each group, copied to all its rows: [S] -> [S]."""
        return self.group_sum(value_s) / self.group_sizes

    def group_is_equal(self, value_s: Tensor) -> Tensor:
        """Return for each row whether all rows of its group have the same value: [S] -> [S] bool."""
        empty = value_s.new_zeros(self.num_prompts)
        low = empty.scatter_reduce(0, self.group, value_s, "amin", include_self=False)
        high = empty.scatter_reduce(0, self.group, value_s, "amax", include_self=False)
        return (low == high)[self.group]

    def group_centred(self, value_s: Tensor) -> Tensor:
        """Subtract the group mean: [S] -> [S]; exactly 0, without rounding noise, if a group's values are all equal."""
        centred = value_s.double() - self.group_mean(value_s.double())
        return centred.masked_fill(self.group_is_equal(value_s), 0.0).to(value_s.dtype)

    def group_std(self, value_s: Tensor, *, ddof: int) -> Tensor:
        """Standard deviation of each group, copied to all its rows: [S] -> [S]; 0 for groups too small to have one."""
        squares = self.group_sum(self.group_centred(value_s.double()).square())
        return (squares / (self.group_sizes - ddof).clamp(min=1)).sqrt().to(value_s.dtype)

    def tokens_of(self, rows: Tensor) -> Tensor:
        """Return the token indices of the given rows: [S'] -> [N'], in the same order."""
        lengths = self.lengths[rows]
        shift = (self.lengths.cumsum(0) - self.lengths)[rows] - (lengths.cumsum(0) - lengths)
        return torch.repeat_interleave(shift, lengths) + torch.arange(int(lengths.sum()))
