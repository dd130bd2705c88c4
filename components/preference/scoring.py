"""How likely a policy finds the responses of comparisons: one pass over each prompt, shared by its responses.

Shapes: S responses of some comparisons, comparison after comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from components.modeling.models.policy import Policy
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.packed import Packed
from components.preference.comparisons import Comparison, Mask, Tokens

Group = tuple[Tokens, Sequence[Tokens], Sequence[Mask]]
"""A prompt, the responses to it, and which of their tokens count; without masks, all of them."""


def response_logprobs(policy: Policy, groups: Sequence[Group], *, keep_last: bool = False) -> Tensor:
    """Return [S]: the log-probability of each response given its prompt, summed over tokens; differentiable."""
    prompts, responses, masks = zip(*groups, strict=True)
    every = [each or [[True] * len(one) for one in few] for each, few in zip(masks, responses, strict=True)]
    packed = Packed.from_groups(
        prompts, responses, policy.device, masks=every if any(masks) else None, keep_last=keep_last
    )
    tokens = policy.target_logprobs(packed).logprobs
    return tokens.new_zeros(packed.num_sequences).index_add(0, packed.sequence, tokens)


def frozen_logprobs(policy: Policy, groups: Sequence[Group], *, max_tokens: int) -> Tensor:
    """Return [S] on the CPU, without gradients, from passes of at most `max_tokens` tokens."""
    sizes = [len(prompt) + sum(map(len, responses)) for prompt, responses, _ in groups]
    starts = list(_starts(groups))
    found = torch.zeros(sum(len(responses) for _, responses, _ in groups))
    with torch.no_grad():
        for chosen in micro_batches(sizes, max_tokens):
            told = response_logprobs(policy, [groups[at] for at in chosen]).float().cpu()
            places = [starts[at] + number for at in chosen for number in range(len(groups[at][1]))]
            found[torch.tensor(places, dtype=torch.long)] = told
    return found


def of_reference(comparison: Comparison) -> Group:
    """Return what the reference is asked: the responses, and that of another row if there is one."""
    others = (comparison.other,) if comparison.other else ()
    assert not (others and comparison.masks), "the parameters refuse it"
    return comparison.prompt, (*comparison.responses, *others), comparison.masks


def _starts(groups: Sequence[Group]) -> Iterator[int]:
    at = 0
    for _, responses, _ in groups:
        yield at
        at += len(responses)
