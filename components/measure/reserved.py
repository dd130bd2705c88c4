"""The log-probability of a reserved token behind responses: what a policy trained by LaSeR says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.measure.outcomes import ItemOutcomes
    from components.modeling.models.policy import Policy

MAX_TOKENS = 16384
"""Most tokens of one forward pass, unless one response has more."""


def reserved_logprobs(
    policy: Policy, outcomes: Sequence[ItemOutcomes], token: str | None = None
) -> list[list[float | None]]:
    """Return for each response of each prompt log p(token | prompt, response, end mark), at temperature 1.

    None for a response that was cut: nothing stands behind its end. Responses are encoded from their texts; equal ones
    are scored once. `token` as in `reserved_token`. Source: Yang et al. 2025, LaSeR (arXiv:2510.14943), test time.
    """
    import torch

    from components.modeling.packing.batching import micro_batches
    from components.modeling.packing.packed import Packed
    from components.modeling.text.prompting import encode_examples
    from components.modeling.text.reserved import reserved_token

    if any(outcome.turns for outcome in outcomes):
        raise InputError("scores by a reserved token are of single turns; conversations have several")
    assert policy.tokenizer is not None
    reserved = reserved_token(policy.tokenizer, policy.ends, token)
    asked = [
        [
            (outcome.item.prompt, text) if ended else None
            for text, ended in zip(outcome.responses, outcome.finished, strict=True)
        ]
        for outcome in outcomes
    ]
    distinct = list(dict.fromkeys(pair for here in asked for pair in here if pair is not None))
    encoded = [[*one.tokens, reserved] for one in encode_examples(policy.tokenizer, distinct, policy.ends)]
    known: dict[tuple[str, str], float] = {}
    with torch.no_grad():
        for rows in micro_batches(list(map(len, encoded)), MAX_TOKENS):
            tokens = [encoded[row] for row in rows]
            masks = [[False] * (len(row) - 1) + [True] for row in tokens]
            logprobs = policy.target_logprobs(Packed.from_sequences(tokens, policy.device, masks=masks)).logprobs
            known.update(zip([distinct[row] for row in rows], logprobs.float().cpu().tolist(), strict=True))
    return [[None if pair is None else known[pair] for pair in here] for here in asked]
