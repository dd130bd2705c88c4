"""The one typed batch that every slot reads: responses of any length, laid end to end, so that nothing is padded.

Shape legend (suffixes and comments use it everywhere in components/rl):
    P  prompts, each with one group of responses
    S  responses in all; P * G when every group has G, but groups may differ in size
    N  response tokens in all: the sum of the S lengths, end-of-sequence tokens included
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from components.rl.batch.layout import Layout

if TYPE_CHECKING:
    from components.modeling.generation.generate import Samples
    from components.tasks.item import Item

UNSCORED, WRONG, RIGHT, FAILED = -1, 0, 1, 2
"""Codes of `Batch.outcomes`. A failed verification is neither right nor wrong: its response is not learned from."""


@dataclass(frozen=True)
class Prompt:
    """A prompt of the pool with its token ids."""

    item: Item
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Batch(Layout):
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
    external: Tensor
    """[S] bool: not drawn from the trained policy, such as a demonstration; in no statistic of its samples."""
    outcomes: Tensor
    """[S] int64: UNSCORED, WRONG, RIGHT or FAILED."""
    rewards: Tensor
    """[S] float32: sum of the reward operators; 0 while unscored."""
    tokens: Tensor
    """[N] int64"""
    old_logprobs: Tensor
    """[N] float32: log-probabilities under the trained policy before the update, at the step's temperature."""
    behaviour_logprobs: Tensor
    """[N] float32: log-probabilities under what really drew the tokens; `old_logprobs` unless a rollout differs."""
    entropies: Tensor
    """[N] float32: entropy in nats of the distribution that each token was drawn from, at temperature 1."""
    advantages: Tensor
    """[N] float32: 0 until an advantage operator has run."""
    reference_logprobs: Tensor
    """[N] float32: log-probabilities under the reference policy; NaN where there is none."""
    values: Tensor
    """[N] float32: what the critic expects before each token; NaN where there is none."""
    weights: Tensor
    """[N] float32: what each token's loss counts, 1 over the denominator; set by the update."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """Marks of operators by name: [S] where the name ends in `_s`, [N] where it ends in `_n`."""

    def with_advantages(self, value: Tensor) -> Batch:
        """Set advantages, given per response [S] or per token [N]."""
        per_token = value if len(value) == self.num_tokens != self.num_responses else self.to_tokens(value)
        return replace(self, advantages=per_token.to(self.advantages.dtype))

    def with_extras(self, **marks: Tensor) -> Batch:
        """Add marks, or replace those of the same name: `name_s` is [S], `name_n` is [N]."""
        for name, value in marks.items():
            wanted = self.num_responses if _is_per_response(name) else self.num_tokens
            if len(value) != wanted:
                raise ValueError(f"extras {name!r} has {len(value)} values for {wanted}")
        return replace(self, extras={**self.extras, **marks})

    def responses(self) -> list[list[list[int]]]:
        """Return token ids by group, then response: what Packed.from_groups takes beside the prompts."""
        rows = [row.tolist() for row in self.tokens.split(self.lengths.tolist())]
        grouped: list[list[list[int]]] = [[] for _ in self.prompts]
        for group, row in zip(self.group.tolist(), rows, strict=True):
            grouped[group].append(row)
        return grouped

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
            "extras": {name: value[rows if _is_per_response(name) else tokens] for name, value in self.extras.items()},
        }
        changes |= {name: tensors[name][rows] for name in PER_RESPONSE}
        changes |= {name: tensors[name][tokens] for name in PER_TOKEN}
        return replace(self, **changes)

    def to(self, device: str | torch.device) -> Batch:
        """Copy the tensors to a device."""
        moved: dict[str, Any] = {name: vars(self)[name].to(device) for name in ("group", *PER_RESPONSE, *PER_TOKEN)}
        return replace(self, **moved, extras={name: value.to(device) for name, value in self.extras.items()})

    def first_groups(self, count: int) -> Batch:
        """Keep the first `count` groups."""
        return self.select(self.group < count)


PER_RESPONSE = ("lengths", "finished", "external", "outcomes", "rewards")
PER_TOKEN = (
    "tokens",
    "old_logprobs",
    "behaviour_logprobs",
    "entropies",
    "advantages",
    "reference_logprobs",
    "values",
    "weights",
)
assert {"prompts", "texts", "group", "extras", *PER_RESPONSE, *PER_TOKEN} == {field.name for field in fields(Batch)}


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
        external=torch.zeros(num_responses, dtype=torch.bool),
        outcomes=torch.full((num_responses,), UNSCORED),
        rewards=torch.zeros(num_responses),
        tokens=tokens,
        old_logprobs=old_logprobs,
        behaviour_logprobs=old_logprobs,
        entropies=entropies,
        advantages=torch.zeros(num_tokens),
        reference_logprobs=torch.full((num_tokens,), torch.nan),
        values=torch.full((num_tokens,), torch.nan),
        weights=torch.zeros(num_tokens),
    )


def batch_of_samples(prompts: Sequence[Prompt], samples: Samples, texts: Sequence[str]) -> Batch:
    """Lay padded samples end to end; how wide their padding was makes no difference from here on."""
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


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Lay batches end to end; groups stay apart even where they share a prompt.

    An extra that only some of them have is 0 in the others.
    """
    first, *others = batches
    if not others:
        return first
    offsets = [0]
    for batch in batches:
        offsets.append(offsets[-1] + batch.num_prompts)
    joined: dict[str, Any] = {
        "prompts": tuple(prompt for batch in batches for prompt in batch.prompts),
        "texts": tuple(text for batch in batches for text in batch.texts),
        "group": torch.cat([batch.group + offset for batch, offset in zip(batches, offsets, strict=False)]),
    }
    joined |= {name: torch.cat([vars(batch)[name] for batch in batches]) for name in (*PER_RESPONSE, *PER_TOKEN)}
    marks = {name: value for batch in reversed(batches) for name, value in batch.extras.items()}
    return Batch(**joined, extras={name: _join_marks(name, example, batches) for name, example in marks.items()})


def regroup(batches: Sequence[Batch]) -> Batch:
    """Join batches so that equal prompts (by item id and tokens) form one group, in the order of their first rows."""
    joined = concatenate(batches)
    first = {(prompt.item.id, prompt.tokens): prompt for prompt in reversed(joined.prompts)}
    place = {key: index for index, key in enumerate(dict.fromkeys((p.item.id, p.tokens) for p in joined.prompts))}
    place_of_prompt = [place[prompt.item.id, prompt.tokens] for prompt in joined.prompts]
    place_s = torch.tensor(place_of_prompt, dtype=torch.long)[joined.group]
    united = replace(joined, prompts=tuple(first[key] for key in place), group=place_s)
    return united.select(torch.argsort(place_s, stable=True))


def _join_marks(name: str, example: Tensor, batches: Sequence[Batch]) -> Tensor:
    parts = []
    for batch in batches:
        count = batch.num_responses if _is_per_response(name) else batch.num_tokens
        parts.append(batch.extras.get(name, example.new_zeros((count, *example.shape[1:]))))
    return torch.cat(parts)


def _is_per_response(name: str) -> bool:
    """Tell [S] from [N] by the suffix: the sizes alone are equal where every response has one token."""
    if not name.endswith(("_s", "_n")):
        raise ValueError(f"extras {name!r}: end the name in '_s' (one value per response) or '_n' (one per token)")
    return name.endswith("_s")
