"""Forward passes over a batch in bounded pieces; a context shared by neighbouring rows is computed once.

For a batch of learned tokens, the pass covers all tokens of its rows, and only the learned ones are targets.
Shapes as in components/rl/batch/batch.py; M tokens of one piece, D model width, V vocabulary, T tokens of one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Literal

import torch
from torch import Tensor

from components.modeling.context.passes import context_passes
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rank_batches, rounds_cost
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.logprobs import LogitsOf, TokenScores, at_temperature, token_entropy
from components.modeling.packing.packed import Packed
from components.modeling.ranks import current_ranks
from components.rl.batch.batch import Batch, Prompt
from components.rl.slots import AFTER

TokenMap = Callable[[Tensor, Tensor, LogitsOf], Tensor]
"""(hidden [M, D], tokens [M], logits_of) -> [M]: hidden states that predict the tokens; logits_of(hidden) is [M, V]."""


def score_tokens(policy: Policy, batch: Batch, *, temperature: float, entropy: bool = False) -> TokenScores:
    """Return log-probabilities [N] of the batch's response tokens, and entropies [N] if asked; differentiable."""
    return policy.target_logprobs(pack(policy, batch), temperature=temperature, entropy=entropy)


def frozen_logprobs(policy: Policy, batch: Batch, *, temperature: float, max_tokens: int) -> Tensor:
    """Return log-probabilities [N] of the batch's response tokens without gradients, on the CPU."""

    def score(part: Batch) -> Tensor:
        return score_tokens(policy, part, temperature=temperature).logprobs

    return frozen(batch, score, max_tokens=max_tokens)


def frozen_entropies(policy: Policy, batch: Batch, *, max_tokens: int, temperature: float = 1.0) -> Tensor:
    """Return the entropy [N] in nats of the distribution of every response token, on the CPU."""

    def entropy(hidden: Tensor, _: Tensor, logits_of: LogitsOf) -> Tensor:
        return token_entropy(logits_of(hidden))

    return frozen_token_map(policy, batch, entropy, max_tokens, temperature=temperature)


def frozen_token_map(
    policy: Policy, batch: Batch, function: TokenMap, max_tokens: int, *, temperature: float = 1.0
) -> Tensor:
    """Return [N], on the CPU, of a function of each token's distribution, without gradients.

    `function` must treat tokens one by one: it is called on pieces whose logits, at `temperature`, stay bounded.
    """
    logits_of = at_temperature(policy.logits, temperature)
    size = chunk_rows(policy.vocab_size, policy.device)

    def score(part: Batch) -> Tensor:
        packed = pack(policy, part)
        pairs = zip(policy.target_hidden(packed).split(size), packed.targets.split(size), strict=True)
        return torch.cat([function(hidden, tokens, logits_of) for hidden, tokens in pairs])

    return frozen(batch, score, max_tokens=max_tokens)


def frozen(batch: Batch, score: Callable[[Batch], Tensor], *, max_tokens: int) -> Tensor:
    """Return [N] float32, on the CPU, from `score`, which gives [N'] for a part of the batch; without gradients.

    The parts are split among the ranks, with equally many passes each, and a part among those of a context group: every
    rank must call it with the same batch.
    """
    ranks, whole = current_ranks(), torch.empty(batch.num_tokens)
    parts = micro_rows(batch, max_tokens, ranks=ranks.count)
    own = []
    with torch.no_grad(), context_passes():
        for rows, counts in ranks.rounds(parts):
            found = score(batch.select(rows)).cpu().float()
            if counts:
                own.append(found)
    for rows, found in zip(parts, ranks.together(ranks.gather(own)), strict=True):
        whole[batch.tokens_of(rows)] = found
    return whole


def frozen_rows(batch: Batch, compute: Callable[[Batch], Sequence[Tensor]], *, max_tokens: int) -> list[Tensor]:
    """Return a tensor for each row from `compute`, which gives those of a part of the batch; without gradients.

    The parts are split among the ranks, as in `frozen`.
    """
    ranks = current_ranks()
    parts = micro_rows(batch, max_tokens, ranks=ranks.count)
    own, whole = [], [torch.empty(0)] * batch.num_responses
    with torch.no_grad():
        for rows, counts in ranks.rounds(parts):
            found = list(compute(batch.select(rows)))
            if counts:
                own.append(found)
    for rows, found in zip(parts, ranks.together(ranks.gather(own)), strict=True):
        for row, value in zip(rows.tolist(), found, strict=True):
            whole[row] = value.clone()
    return whole


def pass_cost(batch: Batch) -> int:
    """Return the number of tokens in forward passes over a batch, each shared context counted once."""
    return (batch.around or batch).num_tokens + sum(len(context) for context, _ in _shared_contexts(batch))


def response_hidden(policy: Policy, batch: Batch, *, max_tokens: int, layer: int = -1) -> list[Tensor]:
    """Return for each row the hidden states [T, D] at its own tokens, on the CPU, without gradients.

    `layer` as in Policy.hidden: the last by default.
    """

    def states(part: Batch) -> tuple[Tensor, ...]:
        packed = pack(policy, part, keep_last=True)
        assert packed.own is not None
        rows: tuple[Tensor, ...] = policy.hidden(packed, layer)[packed.own].cpu().split(part.lengths.tolist())
        return rows

    return frozen_rows(batch, states, max_tokens=max_tokens)


def prompt_hidden(
    policy: Policy, prompts: Sequence[Prompt], *, layer: Literal["mlp_in", "final"], max_tokens: int
) -> list[Tensor]:
    """Return for each prompt the hidden states [T, D] at its tokens, on the CPU, without gradients.

    `layer` mlp_in: the input of the last layer's MLP, after its norm. final: the states that the logits come from.
    """
    found: list[Tensor] = [torch.empty(0)] * len(prompts)
    states = policy.mlp_input if layer == "mlp_in" else policy.hidden
    with torch.no_grad():
        for chosen in micro_batches([len(prompt.tokens) for prompt in prompts], max_tokens):
            rows = [prompts[index].tokens for index in chosen]
            hidden = states(Packed.from_sequences(rows, policy.device, keep_last=True)).cpu()
            for index, part in zip(chosen, hidden.split(list(map(len, rows))), strict=True):
                found[index] = part.clone()
    return found


def micro_rows(batch: Batch, max_tokens: int, *, whole_groups: bool = False, ranks: int = 1) -> list[Tensor]:
    """Split a batch into forward passes of at most `max_tokens`; return the rows [S'] of each.

    Groups stay whole, so that their prompt is computed once. A group that is too large is split between trajectories,
    or, with `whole_groups`, gets its own forward pass however large. For several ranks groups are also split where
    that evens out their passes by more than the prompts computed again cost.
    """
    limits = [max_tokens]
    if ranks > 1 and not whole_groups:
        share = min(max_tokens, -(-pass_cost(batch) // ranks))
        limits += [max(1, share // finer) for finer in (1, 2, 4)]
    plans = [_plan_passes(*_cut(batch, limit, whole_groups), max_tokens, ranks) for limit in limits]
    _, parts = min(plans, key=lambda plan: plan[0])
    return [torch.tensor(rows) for rows in parts]


def _plan_passes(pieces: list[list[int]], costs: list[int], max_tokens: int, ranks: int) -> tuple[int, list[list[int]]]:
    """Return what the passes take, in tokens of the slowest rank, and the rows of each."""
    parts = rank_batches(costs, max_tokens, ranks)
    cost = rounds_cost([sum(costs[piece] for piece in part) for part in parts], ranks)
    return cost, [[row for piece in part for row in pieces[piece]] for part in parts]


def _cut(batch: Batch, limit: int, whole_groups: bool) -> tuple[list[list[int]], list[int]]:
    """Return the rows and the token count of each piece: a group, or a part of one that has more than `limit`."""
    pieces: list[list[int]] = []
    costs: list[int] = []
    previous = -1
    contexts = batch.contexts
    for group, rows, cost in _trajectories(batch):
        if group != previous or (costs[-1] + cost > limit and not whole_groups):
            pieces.append([])
            costs.append(len(contexts[rows[0]]))
            previous = group
        elif contexts[rows[0]] != contexts[rows[0] - 1]:
            costs[-1] += len(contexts[rows[0]])
        pieces[-1] += rows
        costs[-1] += cost
    return pieces, costs


def _trajectories(batch: Batch) -> Iterator[tuple[int, list[int], int]]:
    """Yield group, rows and token count of each trajectory; the count leaves out the first row's context."""
    contexts, lengths = batch.contexts, (batch.around or batch).lengths.tolist()
    firsts = [*batch.first_rows.tolist(), batch.num_responses]
    groups = batch.group.tolist()
    for first, end in pairwise(firsts):
        later = sum(len(contexts[row]) for row in range(first + 1, end))
        yield groups[first], list(range(first, end)), later + sum(lengths[first:end])


def _shared_contexts(batch: Batch) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Yield each context with the neighbouring rows it precedes; rows of different groups never share one."""
    keys = zip(batch.group.tolist(), batch.contexts, strict=True)
    for (_, context), rows in groupby(enumerate(keys), key=lambda entry: entry[1]):
        yield context, [row for row, _ in rows]


def pack(
    policy: Policy, batch: Batch, *, keep_last: bool = False, after: Literal["too", "alone"] | None = None
) -> Packed:
    """Pack the rows of a batch after their contexts for one forward pass; its targets are the batch's tokens [N].

    `after`: the tokens of mark `after_token_s` stand behind the rows, and are targets too, or the only ones.
    """
    laid = batch.around or batch
    tokens = [row.tolist() for row in laid.tokens.split(laid.lengths.tolist())]
    masks = None if laid is batch else [row.tolist() for row in laid.learned.split(laid.lengths.tolist())]
    if after is not None:
        tokens = [[*row, token] for row, token in zip(tokens, batch.extras[AFTER].tolist(), strict=True)]
        masks = None if masks is None else [[*row, True] for row in masks]
    if after == "alone":
        masks = [[False] * (len(row) - 1) + [True] for row in tokens]
    shared = list(_shared_contexts(batch))
    return Packed.from_groups(
        [context for context, _ in shared],
        [[tokens[row] for row in rows] for _, rows in shared],
        policy.device,
        masks=None if masks is None else [[masks[row] for row in rows] for _, rows in shared],
        keep_last=keep_last,
    )
