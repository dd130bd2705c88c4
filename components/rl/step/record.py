"""The responses kept as the Rollouts artifact: some for people to read, the right ones for rehearsal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from components.contract.messages import written
from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch

OUTCOME_NAMES = {RIGHT: "right", WRONG: "wrong", FAILED: "failed", UNSCORED: "unscored"}
Row = dict[str, Any]


class RolloutRecord:
    """A bounded record: responses spread over the rewards of each browsed step, and the latest verified-right ones."""

    def __init__(
        self,
        *,
        browse_samples: int,
        right_samples: int,
        browsed: Iterable[Mapping[str, Any]] = (),
        right: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`browsed` and `right` are the rows of an earlier attempt."""
        self._browse_samples, self._right_samples = browse_samples, right_samples
        self._browse: list[Row] = [dict(row) for row in browsed]
        self._right: dict[tuple[str, ...], Row] = {_key(row): row for row in map(dict, right)}
        self._num_told = len(self._browse)

    def add(self, batch: Batch, step: int, *, browse: bool) -> None:
        """Add the scored samples of a step."""
        if browse:
            self._browse += [row_of(batch, index, step) for index in worst_to_best(batch, self._browse_samples)]
        for index in batch.last_rows[batch.outcomes[batch.last_rows] == RIGHT].tolist():
            row = row_of(batch, index, step)
            self._right.pop(_key(row), None)  # a repeat moves to the end: it is among the latest again
            self._right[_key(row)] = row
        for old in list(self._right)[: max(0, len(self._right) - self._right_samples)]:
            del self._right[old]

    def right_rows(self) -> list[Row]:
        """Return the right responses that are kept: bounded, so each checkpoint holds all of them."""
        return list(self._right.values())

    def browsed_rows(self) -> Sequence[Row]:
        """Return the rows for people so far."""
        return self._browse

    def fresh_browsed(self) -> list[Row]:
        """Return the rows for people since the last call."""
        fresh, self._num_told = self._browse[self._num_told :], len(self._browse)
        return fresh

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the artifact by step; a response kept for both reasons appears once."""
        browsed = [row for row in self._browse if _key(row) not in self._right]
        yield from sorted([*browsed, *self._right.values()], key=lambda row: row["step"])


def worst_to_best(batch: Batch, count: int) -> list[int]:
    """Return the last rows of up to `count` trajectories, evenly from worst to best reward; failed ones come first."""
    rewards = batch.rewards[batch.last_rows]
    order = batch.last_rows[torch.argsort(rewards.nan_to_num(nan=-math.inf), stable=True)].tolist()
    count = min(count, len(order))
    return [order[position * (len(order) - 1) // max(1, count - 1)] for position in range(count)]


def row_of(batch: Batch, index: int, step: int) -> Row:
    """Return a response as a row of the artifact."""
    item, learned = batch.prompts[int(batch.group[index])].item, batch.of_learned()
    reward = float(batch.rewards[index])
    earlier = () if batch.earlier_turns is None else batch.earlier_turns[index]
    row = {
        "prompt_id": item.id,
        "domain": item.domain,
        "step": step,
        "prompt": item.prompt_with(earlier),
        "response": batch.texts[index],
        "reward": reward if math.isfinite(reward) else None,
        "outcome": OUTCOME_NAMES[int(batch.outcomes[index])],
        "num_tokens": int(learned.response_lengths[index]),
        "verifier": item.verifier,
        "answer": item.answer,
        "data": item.data,
    }
    if item.messages:
        row |= {"messages": item.row()["messages"], **written((*earlier, batch.texts[index]))}
    return row


def _key(row: Row) -> tuple[str, ...]:
    return row["prompt_id"], *row.get("turns", ()), row["response"]
