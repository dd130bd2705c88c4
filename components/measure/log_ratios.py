"""Log-ratios of sampled responses under two policies of one vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.measure.outcomes import ItemOutcomes
    from components.modeling.models.policy import Policy
    from components.modeling.text.prompting import Encoded

MAX_TOKENS = 16384
"""Most tokens of one forward pass, unless one response has more."""
Asked = tuple[str, str, bool]
"""Prompt, response, and whether it ended."""


def log_ratios(policy: Policy, reference: Policy, outcomes: Sequence[ItemOutcomes]) -> list[list[float]]:
    """Return for each response of each prompt log pi - log pi_ref, summed over its tokens, its end if it ended.

    Responses are encoded from their texts, once for both; equal ones are scored once. Raises InputError for
    conversations, and for another vocabulary.
    """
    from components.modeling.text.prompting import encode_examples

    if any(outcome.turns or outcome.item.messages for outcome in outcomes):
        raise InputError("log-ratios are of single prompts, and these are conversations")
    own, other = policy.tokenizer, reference.tokenizer
    if own is None or other is None or own.get_vocab() != other.get_vocab():
        raise InputError("reference: it has another tokenizer than the model, so tokens cannot be compared")
    asked: list[list[Asked]] = [
        [(outcome.item.prompt, text, end) for text, end in zip(outcome.responses, outcome.finished, strict=True)]
        for outcome in outcomes
    ]
    distinct = list(dict.fromkeys(one for here in asked for one in here))
    encoded = encode_examples(own, [(prompt, text) for prompt, text, _ in distinct], policy.ends)
    rows = [_as_drawn(one, ended) for one, (_, _, ended) in zip(encoded, distinct, strict=True)]
    ours, theirs = _logprobs(policy, rows), _logprobs(reference, rows)
    ratios = {one: mine - its for one, mine, its in zip(distinct, ours, theirs, strict=True)}
    return [[ratios[one] for one in here] for here in asked]


def _as_drawn(one: Encoded, ended: bool) -> tuple[Sequence[int], Sequence[bool]]:
    """Return tokens and mask, without the end mark for a response that was cut."""
    return (one.tokens, one.loss_mask) if ended else (one.tokens[:-1], one.loss_mask[:-1])


def _logprobs(policy: Policy, rows: Sequence[tuple[Sequence[int], Sequence[bool]]]) -> list[float]:
    """Return the summed log-probability of the masked tokens of each row; 0 for a row without any."""
    import torch

    from components.modeling.packing.batching import micro_batches
    from components.modeling.packing.packed import Packed

    found = [0.0] * len(rows)
    scored = [at for at, (_, mask) in enumerate(rows) if any(mask)]
    with torch.no_grad():
        for chosen in micro_batches([len(rows[at][0]) for at in scored], MAX_TOKENS):
            part = [scored[index] for index in chosen]
            tokens, masks = [list(rows[at][0]) for at in part], [list(rows[at][1]) for at in part]
            values = policy.target_logprobs(Packed.from_sequences(tokens, policy.device, masks=masks)).logprobs
            for at, value in zip(part, values.double().cpu().split([sum(mask) for mask in masks]), strict=True):
                found[at] = float(value.sum())
    return found
