"""Batches of trajectories for tests: rows with tokens of the environment, and the same as hand-built single rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from components.rl.batch.batch import ENVIRONMENT, PER_TOKEN, POLICY, Batch
from tests.rl.build import batch_of

Turns = Sequence[tuple[int, int]]
"""Tokens of the environment, then of the policy, for each turn."""


def conversations(rewards: Sequence[Sequence[float]], turns: Sequence[Sequence[Turns]], *, seed: int = 0) -> Batch:
    """Return a scored batch of one row for each trajectory, grouped as `rewards` are."""
    lengths = [[sum(map(sum, row)) for row in group] for group in turns]
    batch = batch_of(rewards, lengths, seed=seed)
    learned, numbers = [], []
    for row in (row for group in turns for row in group):
        for number, (said, written) in enumerate(row):
            learned += [False] * said + [True] * written
            numbers += [number] * (said + written)
    mask = torch.tensor(learned)
    author = torch.where(mask, POLICY, ENVIRONMENT)
    return replace(batch, learned=mask, author=author, turn=torch.tensor(numbers))


def single_rows(batch: Batch) -> Batch:
    """Return the same trajectories as one row per turn of the policy, each behind all tokens before it."""
    ends = batch.lengths.cumsum(0).tolist()
    places, rows, contexts, lengths = [], [], [], []
    for row, (end, length) in enumerate(zip(ends, batch.lengths.tolist(), strict=True)):
        start = end - length
        for number in batch.turn[start:end].unique().tolist():
            own = [at for at in range(start, end) if bool(batch.learned[at]) and int(batch.turn[at]) == number]
            contexts.append((*batch.contexts[row], *batch.tokens[start : own[0]].tolist()))
            places += own
            rows.append(row)
            lengths.append(len(own))
    chosen = torch.tensor(rows)
    return Batch(
        prompts=batch.prompts,
        texts=tuple(batch.texts[row] for row in rows),
        group=batch.group[chosen],
        trace=chosen,
        lengths=torch.tensor(lengths),
        finished=batch.finished[chosen],
        outcomes=batch.outcomes[chosen],
        rewards=batch.rewards[chosen],
        **{name: vars(batch)[name][torch.tensor(places)] for name in PER_TOKEN},
        context=tuple(contexts),
    )
