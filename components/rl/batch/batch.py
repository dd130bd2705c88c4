"""The one typed batch that every slot reads: rows of any length, concatenated without padding.

The output of a model is a trajectory. It is one row, in which tokens of the environment and the template may separate
the policy's turns, or several rows, each with its own context. A single response is a trajectory of one row whose
tokens are all learned; "response" means the trajectory wherever values are summed, averaged or compared.

Shape legend (suffixes and comments use it everywhere in components/rl):
    P  prompts, each with one group of trajectories
    S  rows; P * G if every group has G trajectories of one row each, but groups may differ in size
    T  trajectories, at most S
    N  tokens of all rows: the sum of the S lengths, end-of-sequence tokens included
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.rl.batch.layout import Layout

if TYPE_CHECKING:
    from components.modeling.generation.generate import Samples
    from components.tasks.item import Item

POLICY, ENVIRONMENT, TEMPLATE, FOREIGN = 0, 1, 2, 3
"""Codes of `Batch.author`: the policies of the run, the environment (a user's turn, an observation), the chat template,
and any other author of the policy's turns (a demonstrator, a teacher, another policy)."""
UNSCORED, WRONG, RIGHT, FAILED = -1, 0, 1, 2
"""Codes of `Batch.outcomes`. A failed verification is neither right nor wrong: its response is not learned from."""


@dataclass(frozen=True)
class Prompt:
    """A prompt of the pool with its token ids, or a conversation up to the policy's first turn."""

    item: Item
    tokens: tuple[int, ...]
    gaps: tuple[tuple[int, ...], ...] = ()
    """Token ids between the policy's turns: from the end of each turn except the last to the start of the next."""
    of: str = ""
    """Id of the prompt of the pool that an operator made this one from; empty if it is one of the pool, or new."""


@dataclass(frozen=True)
class Batch(Layout):
    """Rows grouped by prompt. Rows of a group, and of a trajectory in it, are adjacent and numbered in row order."""

    prompts: tuple[Prompt, ...]
    """P"""
    texts: tuple[str, ...]
    """S: the policy's last turn, decoded; this text is verified."""
    group: Tensor
    """[S] int64: index into `prompts`, the task of each row regardless of the context it was drawn in."""
    trace: Tensor
    """[S] int64: trajectory of each row. Its rows share outcome and reward, and are kept or dropped together."""
    lengths: Tensor
    """[S] int64: tokens of each row."""
    finished: Tensor
    """[S] bool: ended by itself; False if cut at the token limit."""
    outcomes: Tensor
    """[S] int64: UNSCORED, WRONG, RIGHT or FAILED."""
    rewards: Tensor
    """[S] float32: the combined reward operators; 0 while unscored."""
    tokens: Tensor
    """[N] int64"""
    learned: Tensor
    """[N] bool: learned. Advantages, losses, critics and statistics cover these tokens only."""
    author: Tensor
    """[N] int64: who wrote the token: POLICY, ENVIRONMENT, TEMPLATE or FOREIGN."""
    turn: Tensor
    """[N] int64: turn of the policy that the token belongs to or leads to, from 0."""
    old_logprobs: Tensor
    """[N] float32: log-probabilities under the trained policy before the update, at the step's temperature."""
    behaviour_logprobs: Tensor
    """[N] float32: log-probabilities under the sampling distribution; `old_logprobs` unless a rollout differs."""
    entropies: Tensor
    """[N] float32: entropy in nats of the distribution that each token was drawn from, at temperature 1; where an
    operator reads it, from `annotate` on at the step's."""
    token_rewards: Tensor
    """[N] float32: what of the reward is received at a token; the rest, `rewards` less their sum, comes at the end."""
    advantages: Tensor
    """[N] float32: 0 until an advantage operator has run."""
    reference_logprobs: Tensor
    """[N] float32: log-probabilities under the reference policy; NaN where there is none."""
    values: Tensor
    """[N] float32: the critic's value before each token; NaN without a critic."""
    weights: Tensor
    """[N] float32: weight of each token's loss, 1 / denominator; set by the update."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """Marks of operators by name: [S] if the name ends in `_s`, [N] if in `_n`."""
    context: tuple[tuple[int, ...], ...] | None = None
    """S: token ids that precede each row; None if every row follows its prompt's."""
    earlier_turns: tuple[tuple[str, ...], ...] | None = None
    """S: the policy's turns before the last, decoded; None without any."""
    around: Batch | None = None
    """For a batch of learned tokens (see `of_learned`): the same rows with all their tokens."""

    @property
    def contexts(self) -> tuple[tuple[int, ...], ...]:
        """S: token ids that precede each row."""
        if self.context is not None:
            return self.context
        tokens = [prompt.tokens for prompt in self.prompts]
        return tuple(tokens[group] for group in self.group.tolist())

    @cached_property
    def external(self) -> Tensor:
        """[S] bool: trajectories with FOREIGN tokens, such as a demonstration; left out of the policy's statistics."""
        if self.around is not None:
            return self.around.external.to(self.lengths.device)
        foreign_n = self.author == FOREIGN
        if not bool(foreign_n.any()):
            return torch.zeros_like(self.lengths, dtype=torch.bool)
        return self.response_sum(foreign_n.long()) > 0

    def by(self, author: int) -> Batch:
        """Return the batch with all tokens by one author."""
        return replace(self, author=torch.full_like(self.author, author))

    def of_learned(self) -> Batch:
        """Return only the learned tokens, in the same rows; the batch itself if all tokens are learned.

        Positions, sums and neighbours then refer to learned tokens. Forward passes still compute the others, but only
        learned tokens are targets.
        """
        if bool(self.learned.all()):
            return self
        lengths = torch.zeros_like(self.lengths).index_add(0, self.response_of, self.learned.long())
        changes: dict[str, Any] = {name: vars(self)[name][self.learned] for name in PER_TOKEN}
        marks = {name: value if is_per_row(name) else value[self.learned] for name, value in self.extras.items()}
        return replace(self, **changes, lengths=lengths, extras=marks, around=self)

    def require_single(self, user: str) -> None:
        """Raise InputError, naming the operator, unless every trajectory is one response and nothing else."""
        if self.around is not None or not self.one_row_each or not bool(self.learned.all()):
            raise InputError(
                f"rl: {user} works on single responses, and these are conversations of several turns; leave it out, or "
                "give prompts of one turn"
            )

    def with_advantages(self, value: Tensor) -> Batch:
        """Set advantages, given per row [S] or per token [N]."""
        per_token = value if len(value) == self.num_tokens != self.num_responses else self.to_tokens(value)
        return replace(self, advantages=per_token.to(self.advantages.dtype))

    def with_extras(self, **marks: Tensor) -> Batch:
        """Add marks, or replace those of the same name: `name_s` is [S], `name_n` is [N]."""
        for name, value in marks.items():
            wanted = self.num_responses if is_per_row(name) else self.num_tokens
            if len(value) != wanted:
                raise ValueError(f"extras {name!r} has {len(value)} values for {wanted}")
        return replace(self, extras={**self.extras, **marks})

    def responses(self) -> list[list[list[int]]]:
        """Return token ids by group, then response: the responses argument of Packed.from_groups."""
        rows = [row.tolist() for row in self.tokens.split(self.lengths.tolist())]
        grouped: list[list[list[int]]] = [[] for _ in self.prompts]
        for group, row in zip(self.group.tolist(), rows, strict=True):
            grouped[group].append(row)
        return grouped

    def select(self, rows: Tensor) -> Batch:
        """Keep some rows, given as a mask [S] or as indices in the desired order; empty groups are removed.

        A mask that drops any row of a trajectory drops all of it. Indices must keep the rows of a group, and of a
        trajectory, together; raises ValueError for part of a trajectory.
        """
        if rows.dtype == torch.bool:
            whole = rows if self.one_row_each else self._whole(rows)
            rows = whole.nonzero().squeeze(1)
        tokens, tensors, chosen = self.tokens_of(rows), vars(self), rows.tolist()
        kept, group = torch.unique_consecutive(self.group[rows], return_inverse=True)
        changes: dict[str, Any] = {
            "prompts": tuple(self.prompts[index] for index in kept.tolist()),
            "texts": tuple(self.texts[row] for row in chosen),
            "group": group,
            "trace": torch.arange(len(rows)) if self.one_row_each else self._traces(rows),
            "extras": {name: value[rows if is_per_row(name) else tokens] for name, value in self.extras.items()},
            "around": None if self.around is None else self.around.select(rows),
        }
        for name in PER_RESPONSE_LISTS:
            changes[name] = None if tensors[name] is None else tuple(tensors[name][row] for row in chosen)
        changes |= {name: tensors[name][rows] for name in PER_RESPONSE}
        changes |= {name: tensors[name][tokens] for name in PER_TOKEN}
        return replace(self, **changes)

    def _whole(self, kept: Tensor) -> Tensor:
        """Return [S] bool: the rows of trajectories whose rows are all kept."""
        dropped = torch.zeros(self.num_traces, dtype=torch.long).index_add(0, self.trace, (~kept).long())
        return (dropped == 0)[self.trace]

    def _traces(self, rows: Tensor) -> Tensor:
        """Return the new trajectory numbers of rows given as indices."""
        begins = torch.zeros(self.num_responses, dtype=torch.bool)
        begins[self.first_rows] = True
        follows = torch.zeros(len(rows), dtype=torch.bool)
        follows[1:] = rows[1:] == rows[:-1] + 1
        last, followed = begins.roll(-1)[rows], follows.roll(-1)
        if bool((~begins[rows] & ~follows).any()) or bool((~last & ~followed).any()):
            raise ValueError("rows of one trajectory are kept together, in their order")
        return begins[rows].long().cumsum(0) - 1

    def to(self, device: str | torch.device) -> Batch:
        """Copy the tensors to a device."""
        moved: dict[str, Any] = {name: vars(self)[name].to(device) for name in TENSORS}
        return replace(self, **moved, extras={name: value.to(device) for name, value in self.extras.items()})

    def first_groups(self, count: int) -> Batch:
        """Keep the first `count` groups."""
        return self.select(self.group < count)


PER_RESPONSE = ("lengths", "finished", "outcomes", "rewards")
PER_RESPONSE_LISTS = ("context", "earlier_turns")
"""Fields of one entry for each row, or None."""
PER_TOKEN = (
    "tokens",
    "learned",
    "author",
    "turn",
    "old_logprobs",
    "behaviour_logprobs",
    "entropies",
    "token_rewards",
    "advantages",
    "reference_logprobs",
    "values",
    "weights",
)
TENSORS = ("group", "trace", *PER_RESPONSE, *PER_TOKEN)
_OTHERS = ("prompts", "texts", "extras", "around", *PER_RESPONSE_LISTS)
assert {*TENSORS, *_OTHERS} == {field.name for field in fields(Batch)}


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
    """Return a batch of single responses of the policy, not yet scored."""
    num_responses, num_tokens = len(texts), len(tokens)
    return Batch(
        prompts=tuple(prompts),
        texts=tuple(texts),
        group=group,
        lengths=lengths,
        finished=finished,
        trace=torch.arange(num_responses),
        outcomes=torch.full((num_responses,), UNSCORED),
        rewards=torch.zeros(num_responses),
        tokens=tokens,
        learned=torch.ones(num_tokens, dtype=torch.bool),
        author=torch.full((num_tokens,), POLICY),
        turn=torch.zeros(num_tokens, dtype=torch.long),
        old_logprobs=old_logprobs,
        behaviour_logprobs=old_logprobs,
        entropies=entropies,
        token_rewards=torch.zeros(num_tokens),
        advantages=torch.zeros(num_tokens),
        reference_logprobs=torch.full((num_tokens,), torch.nan),
        values=torch.full((num_tokens,), torch.nan),
        weights=torch.zeros(num_tokens),
    )


def batch_of_samples(prompts: Sequence[Prompt], samples: Samples, texts: Sequence[str]) -> Batch:
    """Concatenate padded samples without their padding; its width has no effect from here on."""
    batch = new_batch(
        prompts,
        texts,
        group=samples.prompt_index,
        lengths=samples.lengths,
        finished=samples.finished,
        tokens=samples.flat(samples.tokens),
        old_logprobs=samples.flat(samples.logprobs),
        entropies=samples.flat(samples.entropies),
    )
    if samples.policy_logprobs is None:
        return batch
    return replace(batch, old_logprobs=samples.flat(samples.policy_logprobs))


def is_per_row(name: str) -> bool:
    """Distinguish [S] from [N] by the suffix: the sizes are equal when every response has one token."""
    if not name.endswith(("_s", "_n")):
        raise ValueError(f"extras {name!r}: end the name in '_s' (one value per response) or '_n' (one per token)")
    return name.endswith("_s")
