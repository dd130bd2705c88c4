"""Parameters of the tiny tokenizer, free of torch so that declarations can import them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.contract.params import Params


class TokenizerConfig(Params):
    """How the tiny tokenizer is built."""

    phrases: bool = True
    """Whether phrases that all sample prompts of a domain share become one token each."""
    min_phrase_chars: int = Field(default=4, ge=2)
    """Shortest shared phrase that earns a token."""
    max_sample_prompts: int = Field(default=60, ge=2)
    """How many prompts of each domain are compared to find its phrases."""
    byte_fallback: bool = False
    """Spell characters outside the alphabet as UTF-8 bytes (256 more tokens); otherwise they become
    unknown."""
    chat_template: Literal["plain", "roles"] = "plain"
    """How turns are separated: by a newline and the end mark only, or by a mark for each role, which conversations
    with a system message need."""
