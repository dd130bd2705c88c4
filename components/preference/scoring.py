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
from components.preference.comparisons import Comparison, Tokens

Group = tuple[Tokens, Sequence[Tokens]]
"""A prompt, and the responses to it."""


def response_logprobs(policy: Policy, groups: Sequence[Group], *, keep_last: bool = False) -> Tensor:
    """Return [S]: the log-probability of each response given its prompt, summed over its tokens; differentiable."""
    packed = Packed.from_groups(
        [prompt for prompt, _ in groups], [responses for _, responses in groups], policy.device, keep_last=keep_last
    )
    tokens = policy.target_logprobs(packed).logprobs
    return tokens.new_zeros(packed.num_sequences).index_add(0, packed.sequence, tokens)


def frozen_logprobs(policy: Policy, groups: Sequence[Group], *, max_tokens: int) -> Tensor:
    """Return [S] on the CPU, without gradients, from passes of at most `max_tokens` tokens."""
    sizes = [len(prompt) + sum(map(len, responses)) for prompt, responses in groups]
    starts = list(_starts(groups))
    found = torch.zeros(sum(len(responses) for _, responses in groups))
    with torch.no_grad():
        for chosen in micro_batches(sizes, max_tokens):
            told = response_logprobs(policy, [groups[at] for at in chosen]).float().cpu()
            places = [starts[at] + number for at in chosen for number in range(len(groups[at][1]))]
            found[torch.tensor(places, dtype=torch.long)] = told
    return found


def of_reference(comparison: Comparison) -> Group:
    """Return what the reference is asked: the responses, and that of another row if there is one."""
    return comparison.prompt, (*comparison.responses, *([comparison.other] if comparison.other else []))


def _starts(groups: Sequence[Group]) -> Iterator[int]:
    at = 0
    for _, responses in groups:
        yield at
        at += len(responses)
