"""The one typed batch that every slot reads: responses of any length, laid end to end, so that nothing is padded.

Shape legend (suffixes and comments use it everywhere in components/rl):
    P  prompts, each with one group of responses
    S  responses in all; P * G when every group has G, but groups may differ in size
    N  response tokens in all: the sum of the S lengths, end-of-sequence tokens included
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from components.tasks.item import Item

UNSCORED, WRONG, RIGHT, FAILED = -1, 0, 1, 2
"""Codes of `Batch.outcomes`. A failed verification is neither right nor wrong: its response is not learned from."""


@dataclass(frozen=True)
class Prompt:
    """A prompt of the pool with its token ids."""

    item: Item
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """Responses grouped by prompt. Rows of one group are neighbours, and groups are numbered in row order."""

    prompts: tuple[Prompt, ...]
    """P"""
    texts: tuple[str, ...]
    """S: decoded responses."""
    group: Tensor
    """[S] int64: index into `prompts`."""
    lengths: Tensor
    """[S] int64: tokens of each response, at least 1."""
    finished: Tensor
    """[S] bool: ended by itself; False when it was cut at the token limit."""
    outcomes: Tensor
    """[S] int64: UNSCORED, WRONG, RIGHT or FAILED."""
    rewards: Tensor
    """[S] float32: sum of the reward operators; 0 while unscored."""
    tokens: Tensor
    """[N] int64"""
    old_logprobs: Tensor
    """[N] float32: log-probabilities under the policy that sampled, at its temperature."""
    entropies: Tensor
    """[N] float32: entropy in nats of the distribution that each token was drawn from, at temperature 1."""
    advantages: Tensor
    """[N] float32: 0 until an advantage operator has run."""
    reference_logprobs: Tensor
    """[N] float32: log-probabilities under the reference policy; NaN where there is none."""
    weights: Tensor
    """[N] float32: what each token's loss counts, 1 over the denominator; set by the update."""

    @property
    def num_prompts(self) -> int:
        """Return P."""
        return len(self.prompts)

    @property
    def num_responses(self) -> int:
        """Return S."""
        return len(self.texts)

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

    def with_advantages(self, value: Tensor) -> Batch:
        """Set advantages, given per response [S] or per token [N]."""
        per_token = value if len(value) == self.num_tokens != self.num_responses else self.to_tokens(value)
        return replace(self, advantages=per_token.to(self.advantages.dtype))

    def responses(self) -> list[list[list[int]]]:
        """Return token ids by group, then response: what Packed.from_groups takes beside the prompts."""
        rows = [row.tolist() for row in self.tokens.split(self.lengths.tolist())]
        grouped: list[list[list[int]]] = [[] for _ in self.prompts]
        for group, row in zip(self.group.tolist(), rows, strict=True):
            grouped[group].append(row)
        return grouped

    def tokens_of(self, rows: Tensor) -> Tensor:
        """Return where the tokens of the given responses are: indices [S'] -> [N'], in the same order."""
        lengths = self.lengths[rows]
        shift = (self.lengths.cumsum(0) - self.lengths)[rows] - (lengths.cumsum(0) - lengths)
        return torch.repeat_interleave(shift, lengths) + torch.arange(int(lengths.sum()))

    def select(self, rows: Tensor) -> Batch:
        """Keep some responses, given as a mask [S] or as indices in the order wanted; empty groups vanish.

        Indices must keep the rows of a group together.
        """
        rows = rows.nonzero().squeeze(1) if rows.dtype == torch.bool else rows
        tokens, tensors = self.tokens_of(rows), vars(self)
        kept, group = torch.unique_consecutive(self.group[rows], return_inverse=True)
        changes: dict[str, object] = {
            "prompts": tuple(self.prompts[index] for index in kept.tolist()),
            "texts": tuple(self.texts[row] for row in rows.tolist()),
            "group": group,
        }
        changes |= {name: tensors[name][rows] for name in PER_RESPONSE}
        changes |= {name: tensors[name][tokens] for name in PER_TOKEN}
        return replace(self, **changes)

    def to(self, device: str | torch.device) -> Batch:
        """Copy the tensors to a device."""
        moved = {name: vars(self)[name].to(device) for name in ("group", *PER_RESPONSE, *PER_TOKEN)}
        return replace(self, **moved)

    def first_groups(self, count: int) -> Batch:
        """Keep the first `count` groups."""
        return self.select(self.group < count)


PER_RESPONSE = ("lengths", "finished", "outcomes", "rewards")
PER_TOKEN = ("tokens", "old_logprobs", "entropies", "advantages", "reference_logprobs", "weights")
assert {"prompts", "texts", "group", *PER_RESPONSE, *PER_TOKEN} == {field.name for field in fields(Batch)}


def new_batch(
    prompts: Sequence[Prompt],
    texts: Sequence[str],
    *,
    group: Tensor,
    lengths: Tensor,
    finished: Tensor,
    tokens: Tensor,
    old_logprobs: Tensor,
    entropies: Tensor,
) -> Batch:
    """Return a batch that is not yet scored."""
    num_responses, num_tokens = len(texts), len(tokens)
    return Batch(
        prompts=tuple(prompts),
        texts=tuple(texts),
        group=group,
        lengths=lengths,
        finished=finished,
        outcomes=torch.full((num_responses,), UNSCORED),
        rewards=torch.zeros(num_responses),
        tokens=tokens,
        old_logprobs=old_logprobs,
        entropies=entropies,
        advantages=torch.zeros(num_tokens),
        reference_logprobs=torch.full((num_tokens,), torch.nan),
        weights=torch.zeros(num_tokens),
    )


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Lay batches end to end; groups stay apart even where they share a prompt."""
    first, *others = batches
    if not others:
        return first
    offsets = [0]
    for batch in batches:
        offsets.append(offsets[-1] + batch.num_prompts)
    joined: dict[str, object] = {
        "prompts": tuple(prompt for batch in batches for prompt in batch.prompts),
        "texts": tuple(text for batch in batches for text in batch.texts),
        "group": torch.cat([batch.group + offset for batch, offset in zip(batches, offsets, strict=False)]),
    }
    joined |= {name: torch.cat([vars(batch)[name] for batch in batches]) for name in (*PER_RESPONSE, *PER_TOKEN)}
    return Batch(**joined)  # type: ignore[arg-type]
