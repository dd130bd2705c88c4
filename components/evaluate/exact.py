"""Exact evaluation: the probability of every right response of a prompt, in the place of samples.

Only for prompts whose right responses can be listed: `data["right_responses"]`. What is not listed counts as wrong, and
so does a listed text in other tokens than the tokenizer's own.

Shapes: M tokens of one forward pass, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.batching import micro_batches
from components.modeling.packing.chunks import chunk_rows
from components.modeling.packing.logprobs import at_least_float32
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import decode_responses, encode_examples, encode_prompts
from components.modeling.text.tokenizer import ANSWER
from components.tasks.item import RIGHT_RESPONSES, Item
from components.tasks.verify import Outcome, verify_all
from components.tasks.wording import item_wording

MAX_TOKENS = 16384
"""Most tokens of one forward pass, unless one prompt with its responses has more."""


@dataclass(frozen=True)
class RightResponse:
    """One right response as the policy would write it."""

    text: str
    num_tokens: int
    """The end mark counted."""
    probability: float
    """That the policy, at the temperature of the evaluation, writes this response."""
    entropies: tuple[float, ...]
    """Of the policy's own distribution at each token, nats."""
    answer: slice
    """Which of the tokens are the answer: behind the last answer mark, before the end mark."""


@dataclass(frozen=True)
class Scored:
    """An item with its right responses; those longer than `max_new_tokens` cannot be written and are left out."""

    item: Item
    right: tuple[RightResponse, ...]

    @property
    def probability(self) -> float:
        """Return the chance that one sample is right."""
        return min(1.0, math.fsum(found.probability for found in self.right))


def score_right_responses(
    policy: Policy,
    items: Sequence[Item],
    *,
    max_new_tokens: int,
    temperature: float,
    progress: Callable[[int, int], None],
) -> list[Scored]:
    """Return the items with the probability of each right response, in order; `progress` gets (items done, all).

    Raises InputError for a conversation, for an item that lists no right responses, and for a listed text that its
    verifier does not accept or that the policy could not write.
    """
    texts = _listed(items)
    rows = _encoded(policy, items, texts, max_new_tokens)
    prompts = encode_prompts(policy.tokenizer, [item.prompt for item in items], policy.ends)
    costs = [len(prompt) + sum(map(len, group.values())) for prompt, group in zip(prompts, rows, strict=True)]
    found: dict[int, Scored] = {}
    for chosen in micro_batches(costs, MAX_TOKENS):
        groups = [list(rows[index].values()) for index in chosen]
        scores = _score(policy, [prompts[index] for index in chosen], groups, temperature)
        for index in chosen:
            right = [_right(policy, text, tokens, *next(scores)) for text, tokens in rows[index].items()]
            found[index] = Scored(items[index], tuple(right))
        progress(len(found), len(items))
    return [found[index] for index in range(len(items))]


def _listed(items: Sequence[Item]) -> list[list[str]]:
    """Return the right responses that each item lists, each once, after the item's verifier has accepted them."""
    texts = []
    for item in items:
        listed = item.data.get(RIGHT_RESPONSES)
        if item.messages or not (isinstance(listed, list) and listed and all(isinstance(text, str) for text in listed)):
            raise InputError(
                f"exact: prompt {item.id} does not list its right responses (data.{RIGHT_RESPONSES}), so they cannot "
                "be scored; set `list_right` of source rules, or leave `exact` out and draw samples"
            )
        texts.append(list(dict.fromkeys(listed)))
    pairs = [(item, text) for item, listed in zip(items, texts, strict=True) for text in listed]
    for (item, text), verdict in zip(pairs, verify_all(pairs), strict=True):
        if verdict.outcome is not Outcome.RIGHT:
            raise InputError(
                f"exact: prompt {item.id} lists {text!r:.60} as right, but its verifier says "
                f"{verdict.outcome.value}: {verdict.detail}"
            )
    return texts


def _encoded(
    policy: Policy, items: Sequence[Item], texts: Sequence[Sequence[str]], max_new_tokens: int
) -> list[dict[str, list[int]]]:
    """Return text -> tokens as they are sampled, of each item.

    A response that fills `max_new_tokens` is cut before its end mark and judged all the same; a longer one is left out.
    """
    pairs = [(item, text) for item, listed in zip(items, texts, strict=True) for text in listed]
    examples = encode_examples(policy.tokenizer, [(item.prompt, text) for item, text in pairs], policy.ends)
    rows = [[t for t, own in zip(*example, strict=True) if own] for example in examples]
    wordings = [item_wording(item) for item, _ in pairs]
    written = decode_responses(policy.tokenizer, rows, policy.ends, wordings=wordings)
    for (item, text), text_again in zip(pairs, written, strict=True):
        if text_again != text:
            raise InputError(
                f"exact: prompt {item.id} lists {text!r:.60}, which the model's tokens write as {text_again!r:.60}"
            )
    ordered = iter(rows)
    groups = [{text: next(ordered) for text in listed} for listed in texts]
    return [
        {text: row[:max_new_tokens] for text, row in group.items() if len(row) <= max_new_tokens + 1}
        for group in groups
    ]


def _score(
    policy: Policy, prompts: Sequence[Sequence[int]], groups: Sequence[Sequence[Sequence[int]]], temperature: float
) -> Iterator[tuple[float, list[float]]]:
    """Yield the log-probability and the tokens' entropies of each response, prompt after prompt.

    Any of the policy's end marks ends a response, so at its end their probabilities are added.
    """
    counts = [len(tokens) for group in groups for tokens in group]
    if not counts:
        return
    packed = Packed.from_groups(prompts, groups, policy.device)
    ends = torch.tensor(policy.eos_ids, device=policy.device)
    logprobs, entropies = [], []
    size = chunk_rows(policy.vocab_size, policy.device)
    with torch.no_grad():
        for hidden, tokens in zip(policy.target_hidden(packed).split(size), packed.targets.split(size), strict=True):
            logits = at_least_float32(policy.logits(hidden))
            own = torch.log_softmax(logits, -1)
            entropies.append(-torch.linalg.vecdot(own.exp(), own))
            drawn = own if temperature == 1.0 else torch.log_softmax(logits / temperature, -1)
            chosen = drawn.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
            logprobs.append(torch.where(torch.isin(tokens, ends), drawn[:, ends].logsumexp(-1), chosen))
    both = (torch.cat(values).double().cpu().split(counts) for values in (logprobs, entropies))
    for logprob_t, entropy_t in zip(*both, strict=True):
        yield float(logprob_t.sum()), entropy_t.tolist()


def _right(
    policy: Policy, text: str, tokens: Sequence[int], logprob: float, entropies: Sequence[float]
) -> RightResponse:
    known: dict[str, int] = policy.tokenizer.get_vocab() if policy.tokenizer else {}
    mark = known.get(ANSWER)
    start = len(tokens) - tokens[::-1].index(mark) if mark in tokens else 0
    stop = len(tokens) - (tokens[-1] in policy.eos_ids)
    return RightResponse(text, len(tokens), math.exp(logprob), tuple(entropies), slice(start, stop))
