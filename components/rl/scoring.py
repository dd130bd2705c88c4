"""Forward passes over a batch in bounded pieces, prompts computed once per group."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from components.modeling.batching import micro_batches
from components.modeling.logprobs import TokenScores
from components.modeling.packed import Packed
from components.modeling.policy import Policy
from components.rl.batch import Batch


def score_tokens(policy: Policy, batch: Batch, *, temperature: float, entropy: bool = False) -> TokenScores:
    """Return log-probabilities [N] of the batch's response tokens, and entropies [N] if asked; differentiable."""
    packed = Packed.from_groups([prompt.tokens for prompt in batch.prompts], batch.responses(), policy.device)
    return policy.target_logprobs(packed, temperature=temperature, entropy=entropy)


def frozen_logprobs(policy: Policy, batch: Batch, *, temperature: float, max_tokens: int) -> Tensor:
    """Return log-probabilities [N] of the batch's response tokens without gradients, on the CPU."""
    with torch.no_grad():
        parts = [
            (rows, score_tokens(policy, batch.select(rows), temperature=temperature).logprobs.cpu())
            for rows in micro_rows(batch, max_tokens)
        ]
    whole = torch.empty(batch.num_tokens)
    for rows, logprobs in parts:
        whole[batch.tokens_of(rows)] = logprobs.float()
    return whole


def micro_rows(batch: Batch, max_tokens: int) -> Iterator[Tensor]:
    """Cut a batch into forward passes of at most `max_tokens`; yield the rows [S'] of each.

    Whole groups go together, so that their prompt is computed once; a group that is too large by itself is split.
    """
    pieces: list[list[int]] = []
    costs: list[int] = []
    previous = -1
    for row, (group, length) in enumerate(zip(batch.group.tolist(), batch.lengths.tolist(), strict=True)):
        if group != previous or costs[-1] + length > max_tokens:
            pieces.append([])
            costs.append(len(batch.prompts[group].tokens))
            previous = group
        pieces[-1].append(row)
        costs[-1] += length
    for chosen in micro_batches(costs, max_tokens):
        yield torch.tensor([row for piece in chosen for row in pieces[piece]])
