"""What a policy says of given responses: log-probabilities and entropies, features, a reserved token's probability.

Shapes: S samples (rows), T response tokens, N response tokens in all, M tokens of one forward pass, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.modeling.generation.generate import Samples
from components.modeling.models.policy import Policy, Pool
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.logprobs import at_least_float32
from components.modeling.packing.packed import Packed

MAX_TOKENS = 16384
"""Most tokens of one forward pass, unless one prompt with its responses has more."""


def scored(policy: Policy, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float) -> Samples:
    """Return samples with the current policy's entropies, and its log-probabilities at the temperature.

    A forced token was not drawn, so its `logprobs` are the policy's too. Temperature 0 is scored at 1.
    """
    own, entropies = score(policy, prompts, samples, temperature=temperature or 1.0)
    logprobs = torch.where(samples.sampled, samples.logprobs, own)
    return replace(samples, logprobs=logprobs, entropies=entropies, policy_logprobs=own)


def score(
    policy: Policy, prompts: Sequence[Sequence[int]], samples: Samples, *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities [S, T] of the tokens at a temperature, and entropies [S, T] in nats at temperature 1.

    Both are on the CPU, and 0 at padding.
    """
    groups = samples.grouped()
    costs = [len(prompt) + sum(map(len, group)) for prompt, group in zip(prompts, groups, strict=True)]
    logprobs, entropies = torch.zeros(samples.tokens.shape), torch.zeros(samples.tokens.shape)
    inside = torch.arange(samples.tokens.shape[1]) < samples.lengths.unsqueeze(1)
    with torch.no_grad():
        for chosen in micro_batches(costs, MAX_TOKENS):
            packed = Packed.from_groups([prompts[i] for i in chosen], [groups[i] for i in chosen], policy.device)
            found = _score_pack(policy, packed, temperature)
            size = samples.num_samples
            rows = torch.tensor([i * size + j for i in chosen for j in range(size)])
            for whole, part in zip((logprobs, entropies), found, strict=True):
                piece = torch.zeros(len(rows), whole.shape[1])
                piece[inside[rows]] = part
                whole[rows] = piece
    return logprobs, entropies


def features(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    groups: Sequence[Sequence[Sequence[int]]],
    *,
    layer: int = -1,
    pool: Pool = "mean",
) -> Tensor:
    """Return one vector [S, D] float32 for each response, group after group, on the CPU; see Policy.features.

    `groups` are token ids by prompt, then response, such as `Samples.grouped()`.
    """

    def pooled(chosen: Sequence[int]) -> Tensor:
        laid = [prompts[i] for i in chosen], [groups[i] for i in chosen]
        return policy.features(Packed.from_groups(*laid, policy.device, keep_last=True), layer=layer, pool=pool)

    return _by_group(prompts, groups, pooled)


def reserved_logprobs(
    policy: Policy, prompts: Sequence[Sequence[int]], groups: Sequence[Sequence[Sequence[int]]], token: int
) -> Tensor:
    """Return [S]: log p(token | prompt, response) behind each response, at temperature 1, group after group.

    `token` is one that responses do not hold; see text/reserved.py. Groups as in `features`.
    """

    def behind(chosen: Sequence[int]) -> Tensor:
        rows = [[[*row, token] for row in groups[i]] for i in chosen]
        masks = [[[False] * (len(row) - 1) + [True] for row in group] for group in rows]
        packed = Packed.from_groups([prompts[i] for i in chosen], rows, policy.device, masks=masks)
        return policy.target_logprobs(packed).logprobs

    return _by_group(prompts, groups, behind)


def _by_group(
    prompts: Sequence[Sequence[int]],
    groups: Sequence[Sequence[Sequence[int]]],
    compute: Callable[[Sequence[int]], Tensor],
) -> Tensor:
    """Return a value for each response, in order, from `compute`, which gives those of some groups; no gradients."""
    costs = [len(prompt) + sum(map(len, group)) for prompt, group in zip(prompts, groups, strict=True)]
    found: dict[int, Tensor] = {}
    with torch.no_grad():
        for chosen in micro_batches(costs, MAX_TOKENS):
            parts = compute(chosen).float().cpu().split([len(groups[i]) for i in chosen])
            found.update(zip(chosen, parts, strict=True))
    return torch.cat([found[i] for i in range(len(groups))])


def _score_pack(policy: Policy, packed: Packed, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies [M] of a pack's targets, on the CPU."""
    logprobs, entropies = [], []
    size = chunk_rows(policy.vocab_size, policy.device)
    for hidden, tokens in zip(policy.target_hidden(packed).split(size), packed.targets.split(size), strict=True):
        logits = at_least_float32(policy.logits(hidden))
        own = torch.log_softmax(logits, -1)
        entropies.append(-torch.linalg.vecdot(own.exp(), own))
        drawn = own if temperature == 1.0 else torch.log_softmax(logits / temperature, -1)
        logprobs.append(drawn.gather(-1, tokens.unsqueeze(-1)).squeeze(-1))
    return torch.cat(logprobs).float().cpu(), torch.cat(entropies).float().cpu()
