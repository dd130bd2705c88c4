"""Questions to a policy beside the responses that it learns from: how likely a text is, and what it answers.

Shapes as in components/rl/batch/batch.py; T_i tokens of the i-th continuation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from components.modeling.models.policy import Policy
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.packed import Packed
from components.modeling.ranks import current_ranks

Tokens = Sequence[int]


def continuation_logprobs(
    policy: Policy, contexts: Sequence[Tokens], continuations: Sequence[Tokens], *, temperature: float, max_tokens: int
) -> list[Tensor]:
    """Return for each pair [T_i]: log-probabilities of the continuation's tokens behind its context.

    On the CPU and without gradients. Equal pairs are computed once, in passes of at most `max_tokens`, whose logits are
    held a chunk at a time; the passes are split among the ranks, which must all call it with the same pairs.
    """
    pairs = [(tuple(before), tuple(after)) for before, after in zip(contexts, continuations, strict=True)]
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[1]]
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Tensor] = {}
    ranks = current_ranks()
    parts = list(micro_batches([len(before) + len(after) for before, after in distinct], max_tokens))
    own = []
    with torch.no_grad():
        for rows, counts in ranks.rounds(parts):
            chosen = [distinct[row] for row in rows]
            masks = [[False] * len(before) + [True] * len(after) for before, after in chosen]
            whole = [[*before, *after] for before, after in chosen]
            packed = Packed.from_sequences(whole, policy.device, masks=masks)
            found = policy.target_logprobs(packed, temperature=temperature).logprobs.float().cpu()
            if counts:
                own.append(found)
    for rows, found in zip(parts, ranks.together(ranks.gather(own)), strict=True):
        chosen = [distinct[row] for row in rows]
        for pair, values in zip(chosen, found.split([len(after) for _, after in chosen]), strict=True):
            known[pair] = values.clone()
    return [known.get(pair, torch.zeros(0)) for pair in pairs]
