"""Tokenised training examples, and how dataset rows become them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.modeling.text.prompting import Encoded, encode_examples, encode_texts
from components.modeling.text.turn_ends import TurnEnds


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence to train on."""

    tokens: Sequence[int]
    """Token ids, prompt and response together."""
    loss_mask: Sequence[bool]
    """Which tokens are targets; the first of a sequence is never one."""
    domain: str = ""
    """What mixtures and reports group by."""
    weight: float = 1.0
    """Weight of each of its targets in the loss."""

    @property
    def num_targets(self) -> int:
        """Return how many tokens the loss covers."""
        return sum(self.loss_mask[1:])


def examples_from_rows(
    tokenizer: PreTrainedTokenizerBase | None,
    rows: Iterable[Mapping[str, Any]],
    *,
    loss_on: Literal["response", "all"] = "response",
    ends: TurnEnds | None = None,
) -> list[Example]:
    """Encode rows with "prompt" and "response", or with "text" (where every token is a target).

    `loss_on="all"` trains on the prompt's tokens too, as pretraining does; `ends` are the model's. Raises InputError
    for a row that has neither form, and for a model without a tokenizer.
    """
    if tokenizer is None:
        raise InputError("the model has no tokenizer; put its tokenizer.json beside its weights")
    rows = list(rows)
    encoded: dict[int, Encoded] = {}
    is_pair = [is_demonstration(row, index) for index, row in enumerate(rows)]
    pairs = [index for index, pair in enumerate(is_pair) if pair]
    texts = [index for index, pair in enumerate(is_pair) if not pair]
    examples = [(rows[index]["prompt"], rows[index]["response"]) for index in pairs]
    encoded.update(zip(pairs, encode_examples(tokenizer, examples, ends), strict=True))
    encoded.update(zip(texts, encode_texts(tokenizer, [rows[index]["text"] for index in texts]), strict=True))
    return [
        Example(
            tokens=encoded[index].tokens,
            loss_mask=encoded[index].loss_mask if loss_on == "response" else [True] * len(encoded[index].tokens),
            domain=row.get("domain", ""),
        )
        for index, row in enumerate(rows)
    ]


def split_long(examples: Iterable[Example], max_tokens: int) -> list[Example]:
    """Cut examples into windows of at most `max_tokens`, each beginning with the last token of the one
    before.

    Only the first token of a window is no target, so every target of a long text is still counted once.
    """
    return [window for example in examples for window in _windows(example, max_tokens)]


def _windows(example: Example, max_tokens: int) -> list[Example]:
    if len(example.tokens) <= max_tokens:
        return [example]
    return [
        replace(
            example,
            tokens=example.tokens[start : start + max_tokens],
            loss_mask=example.loss_mask[start : start + max_tokens],
        )
        for start in range(0, len(example.tokens) - 1, max_tokens - 1)
    ]


def is_demonstration(row: Mapping[str, Any], index: int) -> bool:
    """Return whether a row is a prompt with its response (else it is a text); raise InputError for
    neither."""
    if "prompt" in row and "response" in row:
        return True
    if "text" not in row:
        raise InputError(
            f"row {row.get('id', index)!r} cannot be trained on: it has {', '.join(sorted(row)) or 'no keys'}; "
            "a demonstration has 'prompt' and 'response', a corpus row has 'text'"
        )
    return False
