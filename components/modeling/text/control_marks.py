"""Texts that a tokenizer reads as control tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def control_marks(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the texts that a tokenizer reads as one special token, such as the end of a turn."""
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return list(dict.fromkeys([*added, *tokenizer.all_special_tokens]))
