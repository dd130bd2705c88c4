"""A batch as reward functions in users' files see it: prompts, completions and the dataset's columns, as in TRL.

Everything is given by name, one entry for each trajectory: `prompts`, `completions`, `completion_ids`, and every column
that the rows have (`answer`, `id`, `domain`, and those of `data`); a row without a column has None there. Plain prompts
and completions are texts; those of a conversation are lists of {"role", "content"}, a completion beginning with the
policy's first turn. The contract is that of TRL's GRPOTrainer, "Using a custom reward function".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.messages import Message, filled
from components.contract.operator_files.operator import FileOperator

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch

OWN = ("answer", "id", "domain")
"""Columns that every row has; `data` cannot replace them."""
SETTINGS = "settings"
"""The key of `data` that holds the verifier's settings, which are no column."""


def adapt(operator: FileOperator) -> Callable[..., Tensor]:
    """Return a reward function of a user's file as a reward operator."""

    def reward(batch: Batch, context: object, *, config: object) -> Tensor:
        """Return [S]: the number of each trajectory, in all of its rows."""
        import torch

        from components.modeling.ranks import current_ranks

        if not batch.num_responses:
            return torch.zeros(0)

        def compute() -> list[float]:
            # one rank computes: a reward that asks a service need not say the same twice
            return numbers(operator, operator.call_by_name(columns(batch)), batch.num_traces)

        found = current_ranks().first_says(compute)
        return torch.tensor(found, dtype=torch.float32, device=batch.trace.device)[batch.trace]

    return reward


def columns(batch: Batch) -> dict[str, list[Any]]:
    """Return what a reward function may take by name, with one entry for each trajectory."""
    rows = batch.last_rows.tolist()
    groups = batch.group.tolist()
    items = [batch.prompts[groups[row]].item for row in rows]
    earlier = batch.earlier_turns or ((),) * batch.num_responses
    pairs = [exchange(item, (*earlier[row], batch.texts[row])) for item, row in zip(items, rows, strict=True)]
    names = dict.fromkeys(name for item in items for name in item.data if name not in (*OWN, SETTINGS))
    ids = [part.tolist() for part in batch.tokens.split(batch.lengths.tolist())]
    return {
        **{name: [item.data.get(name) for item in items] for name in names},
        **{name: [getattr(item, name) for item in items] for name in OWN},
        "prompts": [prompt for prompt, _ in pairs],
        "completions": [completion for _, completion in pairs],
        "completion_ids": [ids[row] for row in rows],
    }


def numbers(operator: FileOperator, returned: Any, count: int) -> list[float]:
    """Return the rewards that a function returned; None counts as 0, "does not apply here"; NaN: it could not say.

    Raises OperatorFailed for anything but `count` finite numbers, booleans, NaN and None, in a list, tuple, array or
    tensor.
    """
    plain = returned.tolist() if hasattr(returned, "tolist") else returned
    if not isinstance(plain, Sequence) or isinstance(plain, str | bytes):
        kind = type(returned).__name__
        raise operator.failed(f"returned {_a(kind)}, expected a list with a number for each of {count} completions")
    if len(plain) != count:
        raise operator.failed(f"returned {len(plain)} numbers for {count} completions")
    return list(_checked(operator, plain))


def _checked(operator: FileOperator, values: Iterable[Any]) -> Iterable[float]:
    for index, value in enumerate(values):
        value = value.tolist() if hasattr(value, "tolist") else value  # a number of numpy or torch
        if value is None:
            yield 0.0
        elif not isinstance(value, bool | int | float):
            raise operator.failed(f"returned {_a(type(value).__name__)} for completion {index}, expected a number")
        elif math.isinf(value):
            raise operator.failed(f"returned {value} for completion {index}, expected a finite number")
        else:
            yield float(value)


def exchange(item: Any, turns: tuple[str, ...]) -> tuple[Any, Any]:
    """Return prompt and completion of one trajectory: texts, or lists of messages for a conversation."""
    if not item.messages:
        return item.prompt, turns[-1]
    whole = [_plain(message) for message in filled(item.messages, turns)]
    first = next((index for index, message in enumerate(item.messages) if message.is_open), len(item.messages))
    return whole[:first], whole[first:]


def _plain(message: Message) -> dict[str, str]:
    return {**message.for_template(), "content": message.content or ""}


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
