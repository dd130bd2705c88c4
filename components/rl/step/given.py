"""Token ids of responses not drawn from the policy, encoded as in supervised training."""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.errors import InputError
from components.contract.messages import filled
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import Encoded, encode_examples
from components.modeling.text.turns import encode_conversation
from components.rl.batch.batch import Prompt


def given_tokens(
    policy: Policy, prompts: Sequence[Prompt], given: Sequence[str | Sequence[int | str]]
) -> list[Sequence[int]]:
    """Return token ids of given responses, texts or token ids, one per prompt.

    Raises InputError for a text if the prompt is a conversation with several turns of the policy, and for turns.
    """
    assert policy.tokenizer is not None
    rows: list[Sequence[int]] = []
    for prompt, response in zip(prompts, given, strict=True):
        if isinstance(response, str):
            example = _example(policy, prompt, response)
            rows.append([token for token, own in zip(example.tokens, example.loss_mask, strict=True) if own])
        else:
            rows.append([_token(prompt, part) for part in response])
    return rows


def _token(prompt: Prompt, part: str | int) -> int:
    if isinstance(part, str):
        raise InputError(
            f"rl: item {prompt.item.id} was given the turns of a conversation, where one text is needed; use a "
            "demonstrator that writes one text, or leave out the operator that asks it"
        )
    return part


def _example(policy: Policy, prompt: Prompt, response: str) -> Encoded:
    assert policy.tokenizer is not None
    if prompt.gaps:
        raise InputError(
            f"rl: item {prompt.item.id} is a conversation of {len(prompt.gaps) + 1} turns, to which one text is no "
            "response; leave out the operator that writes responses, or give it prompts of one turn"
        )
    if prompt.item.messages:
        return encode_conversation(policy.tokenizer, filled(prompt.item.messages, [response]), policy.ends)
    (example,) = encode_examples(policy.tokenizer, [(prompt.item.prompt, response)], policy.ends)
    return example
