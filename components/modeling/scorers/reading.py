"""What a reward model reads: a task with a response, or with the steps of one, as tokens with places."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.contract.messages import Message
from components.modeling.models.policy import Policy
from components.modeling.scorers.network import Reading
from components.modeling.text.prompting import encode_examples, tokenize
from components.modeling.text.turn_ends import template_end
from components.modeling.text.turns import encode_conversations, mark_in, scripts

Asked = str | Sequence[Message]
"""A prompt, or messages that end with the user's."""


def forged(policy: Policy, asked: Asked, texts: Sequence[str]) -> str | None:
    """Return a mark of the template, or an end, that a response names, or any message of a conversation; else None.

    Behind an end mark of its own nothing of a response would be read: a good beginning and the mark would score well,
    whatever follows.
    """
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    said = [] if isinstance(asked, str) else [message.content or "" for message in asked]
    found = (mark_in(tokenizer, policy.ends, text) for text in (*said, *texts))
    return next((mark for mark in found if mark is not None), None)


def read_responses(
    policy: Policy, pairs: Sequence[tuple[Asked, str]], *, every: bool = False, whole: bool = False
) -> list[Reading]:
    """Return each task with its response and the end mark, as a policy is trained on them, scored at the last token.

    The last that is no padding, as transformers looks for it. With `every`, at all tokens of the response up to there.
    With `whole`, with all that the chat template writes behind a response, such as a line break: classifiers from
    elsewhere are read at its last token. A text that is `forged` is cut at its mark, or an InputError.
    """
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    plain = {at: (asked, text) for at, (asked, text) in enumerate(pairs) if isinstance(asked, str)}
    talks = {
        at: (*asked, Message(role="assistant", content=text))
        for at, (asked, text) in enumerate(pairs)
        if not isinstance(asked, str)
    }
    encoded = dict(zip(plain, encode_examples(tokenizer, list(plain.values()), policy.ends), strict=True))
    named = {f"text {at + 1}": talk for at, talk in talks.items()}
    encoded |= dict(zip(talks, encode_conversations(tokenizer, named, policy.ends, learn="last"), strict=True))
    found = []
    for at in range(len(pairs)):
        tokens, mask = encoded[at]
        tokens = _whole(tokenizer, tokens) if whole else tokens
        last = last_place(tokens, policy.pad_id)
        before = [place for place, own in enumerate(mask[:last]) if own and every]
        found.append(Reading(tokens, [*before, last], mask.index(True) if True in mask else 0))
    return found


def _whole(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> list[int]:
    """Return tokens that stop at a response's end with what the chat template writes instead of stopping there."""
    if not tokenizer.chat_template:
        return tokens
    end = template_end(tokenizer)
    (tail,) = tokenize(tokenizer, [end.tail])
    if end.token is None:  # an end that the template does not write was added
        return [*tokens[:-1], *tail]
    return [*tokens, *tail[tail.index(end.token) + 1 :]]


def read_steps(policy: Policy, rows: Sequence[tuple[Asked, Sequence[str]]], separator: str) -> list[Reading]:
    """Return each task with its steps, each closed by `separator` and scored at the last token of it, as in TRL.

    Steps are tokenised one by one, so that a step has the same tokens whatever follows.
    """
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    behind = tokenize(tokenizer, [separator])[0]
    if not behind:
        raise InputError(f"separator {separator!r} has no tokens")
    found = []
    for (_, steps), script in zip(rows, scripts(tokenizer, [asked for asked, _ in rows], policy.ends), strict=True):
        tokens, places = list(script.opening), []
        for step in tokenize(tokenizer, list(steps)):
            tokens += [*step, *behind]
            places.append(len(tokens) - 1)
        found.append(Reading(tokens, places, len(script.opening)))
    return found


def steps_of(text: str, separator: str) -> list[str]:
    """Return the steps of a response, blank ones left out; a blank response is one step."""
    return [step for step in text.split(separator) if step.strip()] or [text]


def last_place(tokens: Sequence[int], pad_id: int) -> int:
    """Return the last token that is no padding; the first one where all are."""
    return next((at for at in range(len(tokens) - 1, -1, -1) if tokens[at] != pad_id), 0)
