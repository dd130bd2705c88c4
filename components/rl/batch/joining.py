"""Joining batches: by concatenation, or with equal tasks merged into one group.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from components.rl.batch.batch import PER_RESPONSE, PER_RESPONSE_LISTS, PER_TOKEN, Batch, is_per_row


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Concatenate batches; groups stay separate even if they share a prompt.

    An extra that only some batches have is 0 in the others.
    """
    first, *others = batches
    if not others:
        return first
    joined: dict[str, Any] = {
        "prompts": tuple(prompt for batch in batches for prompt in batch.prompts),
        "texts": tuple(text for batch in batches for text in batch.texts),
        "group": _numbered([batch.group for batch in batches], [batch.num_prompts for batch in batches]),
        "trace": _numbered([batch.trace for batch in batches], [batch.num_traces for batch in batches]),
    }
    joined |= {name: torch.cat([vars(batch)[name] for batch in batches]) for name in (*PER_RESPONSE, *PER_TOKEN)}
    joined |= {name: _lists(name, batches) for name in PER_RESPONSE_LISTS}
    if any(batch.around is not None for batch in batches):
        joined["around"] = concatenate([batch.around or batch for batch in batches])
    marks = {name: value for batch in reversed(batches) for name, value in batch.extras.items()}
    return Batch(**joined, extras={name: _join_marks(name, example, batches) for name, example in marks.items()})


def regroup(batches: Sequence[Batch]) -> Batch:
    """Join batches so that equal tasks (by item id) form one group, in the order of their first rows.

    The group takes the prompt of the first one; rows drawn in another context keep that context.
    """
    joined = concatenate(batches)
    first = {prompt.item.id: prompt for prompt in reversed(joined.prompts)}
    place = {name: index for index, name in enumerate(dict.fromkeys(prompt.item.id for prompt in joined.prompts))}
    place_s = torch.tensor([place[prompt.item.id] for prompt in joined.prompts], dtype=torch.long)[joined.group]
    if any(prompt.tokens != first[prompt.item.id].tokens for prompt in joined.prompts):
        joined = replace(joined, context=joined.contexts)
    united = replace(joined, prompts=tuple(first[name] for name in place), group=place_s)
    return united.select(torch.argsort(place_s, stable=True))


def _numbered(parts: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Concatenate the numbers of all parts, each shifted by the counts before it."""
    shifted, offset = [], 0
    for part, count in zip(parts, counts, strict=True):
        shifted.append(part + offset)
        offset += count
    return torch.cat(shifted)


def _lists(name: str, batches: Sequence[Batch]) -> tuple[Any, ...] | None:
    """Return the rows' entries of one field; None if no batch has them."""
    if all(vars(batch)[name] is None for batch in batches):
        return None
    return tuple(entry for batch in batches for entry in _entries(name, batch))


def _entries(name: str, batch: Batch) -> Sequence[Any]:
    if name == "context":
        return batch.contexts
    return vars(batch)[name] or ((),) * batch.num_responses


def _join_marks(name: str, example: Tensor, batches: Sequence[Batch]) -> Tensor:
    parts = []
    for batch in batches:
        count = batch.num_responses if is_per_row(name) else batch.num_tokens
        parts.append(batch.extras.get(name, example.new_zeros((count, *example.shape[1:]))))
    return torch.cat(parts)
