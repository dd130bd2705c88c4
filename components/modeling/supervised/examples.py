"""Tokenised training examples, and their encoding from dataset rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.contract.messages import Message, conversation_of, has_conversation, naming
from components.modeling.text.prompting import Encoded, encode_examples, encode_texts
from components.modeling.text.turn_ends import TurnEnds
from components.modeling.text.turns import Learn, encode_conversations

RowKind = Literal["messages", "pair", "text"]


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence to train on."""

    tokens: Sequence[int]
    """Token ids, prompt and response together."""
    loss_mask: Sequence[bool]
    """Which tokens are targets; the first of a sequence is never one."""
    domain: str = ""
    """Group in mixtures and reports."""
    weight: float = 1.0
    """Weight of each of its targets in the loss."""
    taught: Encoded | None = None
    """The same targets as a distillation's teacher reads them, perhaps behind another prompt."""

    @property
    def longest(self) -> int:
        """Return the tokens of the longest sequence that is computed for it."""
        return max(len(self.tokens), len(self.taught.tokens) if self.taught else 0)

    @property
    def num_targets(self) -> int:
        """Return how many tokens the loss covers."""
        return sum(self.loss_mask[1:])


def examples_from_rows(
    tokenizer: PreTrainedTokenizerBase | None,
    rows: Iterable[Mapping[str, Any]],
    *,
    loss_on: Literal["response", "all"] = "response",
    learn: Learn = "all",
    ends: TurnEnds | None = None,
) -> list[Example]:
    """Encode rows with "prompt" and "response", with "messages", or with "text" (where every token is a target).

    In messages the assistant's turns are targets: the last, all, or those marked by their `learn`. `loss_on="all"`
    makes every token a target, as in pretraining; `ends` are the model's. Raises InputError for a row that has
    none of these forms, for messages that the model's template cannot render, and for a model without a tokenizer.
    """
    if tokenizer is None:
        raise InputError("the model has no tokenizer; put its tokenizer.json beside its weights")
    rows = list(rows)
    encoded: dict[int, Encoded] = {}
    kinds = [row_kind(row, index) for index, row in enumerate(rows)]
    pairs, texts, talks = (
        [index for index, kind in enumerate(kinds) if kind == wanted] for wanted in ("pair", "text", "messages")
    )
    examples = [(rows[index]["prompt"], rows[index]["response"]) for index in pairs]
    encoded.update(zip(pairs, encode_examples(tokenizer, examples, ends), strict=True))
    encoded.update(zip(texts, encode_texts(tokenizer, [rows[index]["text"] for index in texts]), strict=True))
    encoded.update(_conversations(tokenizer, {index: rows[index] for index in talks}, learn, ends))
    return [
        Example(
            tokens=encoded[index].tokens,
            loss_mask=encoded[index].loss_mask if loss_on == "response" else [True] * len(encoded[index].tokens),
            domain=row.get("domain", ""),
        )
        for index, row in enumerate(rows)
    ]


def _conversations(
    tokenizer: PreTrainedTokenizerBase, rows: Mapping[int, Mapping[str, Any]], learn: Learn, ends: TurnEnds | None
) -> dict[int, Encoded]:
    """Return the tokens and targets of rows with messages, by row index."""
    talks: dict[str, tuple[Message, ...]] = {}
    for index, row in rows.items():
        name = f"row {index + 1} ({row.get('id', 'without id')})"
        with naming(name):
            talks[name] = conversation_of(row) or ()
    encoded = encode_conversations(tokenizer, talks, ends, learn=learn)
    for name, found in zip(talks, encoded, strict=True):
        if not any(found.loss_mask):
            raise InputError(f"{name}: no message has `learn: true`, and only marked ones are learnt (learn: marked)")
    return dict(zip(rows, encoded, strict=True))


def split_long(examples: Iterable[Example], max_tokens: int) -> list[Example]:
    """Cut examples into windows of at most `max_tokens`, each beginning with the last token of the previous one.

    Only the first token of a window is not a target, so every target of a long text counts exactly once.
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


def row_kind(row: Mapping[str, Any], index: int) -> RowKind:
    """Return whether a row holds messages, a prompt with its response, or a text; raise InputError otherwise."""
    if has_conversation(row):
        return "messages"
    if "prompt" in row and "response" in row:
        return "pair"
    if "text" not in row:
        raise InputError(
            f"row {row.get('id', index)!r} cannot be trained on: it has {', '.join(sorted(row)) or 'no keys'}; "
            "a demonstration has 'prompt' and 'response', or 'messages'; a corpus row has 'text'"
        )
    return "text"
