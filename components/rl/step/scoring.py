"""Forward passes over a batch in bounded pieces, prompts computed once per group.

Shapes as in components/rl/batch/batch.py; M tokens of one piece, D model width, V vocabulary, T tokens of one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from components.modeling.models.policy import Policy
from components.modeling.packing import logprobs as chunking
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.logprobs import LogitsOf, TokenScores, at_temperature, token_entropy
from components.modeling.packing.packed import Packed
from components.modeling.ranks import current_ranks
from components.rl.batch.batch import Batch, Prompt

TokenMap = Callable[[Tensor, Tensor, LogitsOf], Tensor]
"""(hidden [M, D], tokens [M], logits_of) -> [M]: hidden states that predict the tokens; logits_of(hidden) is [M, V]."""


def score_tokens(policy: Policy, batch: Batch, *, temperature: float, entropy: bool = False) -> TokenScores:
    """Return log-probabilities [N] of the batch's response tokens, and entropies [N] if asked; differentiable."""
    return policy.target_logprobs(_pack(policy, batch), temperature=temperature, entropy=entropy)


def frozen_logprobs(policy: Policy, batch: Batch, *, temperature: float, max_tokens: int) -> Tensor:
    """Return log-probabilities [N] of the batch's response tokens without gradients, on the CPU."""

    def score(part: Batch) -> Tensor:
        return score_tokens(policy, part, temperature=temperature).logprobs

    return frozen(batch, score, max_tokens=max_tokens)


def frozen_entropies(policy: Policy, batch: Batch, *, max_tokens: int) -> Tensor:
    """Return the entropy [N] in nats, at temperature 1, of the distribution of every response token, on the CPU."""
    return frozen_token_map(policy, batch, lambda hidden, _, logits_of: token_entropy(logits_of(hidden)), max_tokens)


def frozen_token_map(
    policy: Policy, batch: Batch, function: TokenMap, max_tokens: int, *, temperature: float = 1.0
) -> Tensor:
    """Return [N], on the CPU, of a function of each token's distribution, without gradients.

    `function` must treat tokens one by one: it is called on pieces whose logits, at `temperature`, stay bounded.
    """
    logits_of = at_temperature(policy.logits, temperature)
    size = max(1, chunking.CHUNK_ELEMENTS // policy.vocab_size)

    def score(part: Batch) -> Tensor:
        packed = _pack(policy, part)
        pairs = zip(policy.target_hidden(packed).split(size), packed.targets.split(size), strict=True)
        return torch.cat([function(hidden, tokens, logits_of) for hidden, tokens in pairs])

    return frozen(batch, score, max_tokens=max_tokens)


def frozen(batch: Batch, score: Callable[[Batch], Tensor], *, max_tokens: int) -> Tensor:
    """Return [N] float32, on the CPU, from `score`, which gives [N'] for a part of the batch; without gradients.

    Ranks share the parts out, and make as many passes each: all must call it, with one and the same batch.
    """
    ranks, whole = current_ranks(), torch.empty(batch.num_tokens)
    parts = list(micro_rows(batch, ranks.pass_tokens(pass_cost(batch), max_tokens)))
    own = []
    with torch.no_grad():
        for rows, counts in ranks.rounds(parts):
            found = score(batch.select(rows)).cpu().float()
            if counts:
                own.append(found)
    for rows, found in zip(parts, ranks.together(ranks.gather(own)), strict=True):
        whole[batch.tokens_of(rows)] = found
    return whole


def pass_cost(batch: Batch) -> int:
    """Return the tokens that forward passes over a batch compute, each prompt once."""
    return batch.num_tokens + sum(len(batch.prompts[group].tokens) for group in set(batch.group.tolist()))


def response_hidden(policy: Policy, batch: Batch, *, max_tokens: int) -> list[Tensor]:
    """Return for each response the final hidden states [T, D] at its own tokens, on the CPU, without gradients."""
    found: list[Tensor] = [torch.empty(0)] * batch.num_responses
    with torch.no_grad():
        for rows in micro_rows(batch, max_tokens):
            part = batch.select(rows)
            packed = _pack(policy, part, keep_last=True)
            hidden = policy.hidden(packed).cpu()
            assert packed.last is not None
            ends = (packed.last.cpu() + 1).tolist()
            for row, end, length in zip(rows.tolist(), ends, part.lengths.tolist(), strict=True):
                found[row] = hidden[end - length : end].clone()
    return found


def prompt_hidden(
    policy: Policy, prompts: Sequence[Prompt], *, layer: Literal["mlp_in", "final"], max_tokens: int
) -> list[Tensor]:
    """Return for each prompt the hidden states [T, D] at its tokens, on the CPU, without gradients.

    `layer` mlp_in: what enters the last layer's MLP, after its norm. final: what the logits are made from.
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


def micro_rows(batch: Batch, max_tokens: int, *, whole_groups: bool = False) -> Iterator[Tensor]:
    """Cut a batch into forward passes of at most `max_tokens`; yield the rows [S'] of each.

    Whole groups go together, so that their prompt is computed once; a group that is too large by itself is split,
    unless `whole_groups`: then it has a forward pass of its own, however large.
    """
    pieces: list[list[int]] = []
    costs: list[int] = []
    previous = -1
    for row, (group, length) in enumerate(zip(batch.group.tolist(), batch.lengths.tolist(), strict=True)):
        if group != previous or (costs[-1] + length > max_tokens and not whole_groups):
            pieces.append([])
            costs.append(len(batch.prompts[group].tokens))
            previous = group
        pieces[-1].append(row)
        costs[-1] += length
    for chosen in micro_batches(costs, max_tokens):
        yield torch.tensor([row for piece in chosen for row in pieces[piece]])


def _pack(policy: Policy, batch: Batch, *, keep_last: bool = False) -> Packed:
    prompts = [prompt.tokens for prompt in batch.prompts]
    return Packed.from_groups(prompts, batch.responses(), policy.device, keep_last=keep_last)
