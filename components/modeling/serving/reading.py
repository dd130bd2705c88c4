"""The recorded part of an answer: plain values of known types. What a server sends is hostile input."""

from __future__ import annotations

import math
from typing import Any

from components.modeling.serving.client import Failure, without_key

BYTES_PER_TOKEN = 64
"""Longest accepted text per token of an answer; the rest is cut."""


def read_text(found: Any, key: str | None, *, max_new_tokens: int) -> dict[str, Any]:
    """Return {"text", "finished"} of a chat completion or completion; raise Failure if there is none."""
    choice = _choice(found)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict) and choice.get("finish_reason") in ("length", "content_filter"):
        text = ""
    if not isinstance(text, str):
        raise Failure("its answer has no text")
    limit = BYTES_PER_TOKEN * max_new_tokens
    finished = choice.get("finish_reason") not in ("length", "content_filter") and len(text) <= limit
    return {"text": _clean(text[:limit], key), "finished": finished}


def read_likelihood(found: Any, prompt: str, text: str) -> dict[str, Any]:
    """Return {"logprob", "num_tokens"} of `text` after `prompt`, from a completion that echoes both.

    Offsets count characters. A token that spans prompt and text counts for the text; what the server had to add
    after it does not.
    """
    logprobs = _choice(found).get("logprobs")
    values, offsets = (logprobs.get("token_logprobs"), logprobs.get("text_offset")) if _is_dict(logprobs) else (0, 0)
    if not (isinstance(values, list) and isinstance(offsets, list) and len(values) == len(offsets) and values):
        raise Failure("its answer has no log-probabilities of the prompt; a scorer needs a server that echoes them")
    if not all(isinstance(at, int) and not isinstance(at, bool) for at in offsets) or offsets != sorted(offsets):
        raise Failure("its answer has offsets that are none")
    border, end = len(prompt), len(prompt) + len(text)
    ends = [*offsets[1:], max(end, offsets[-1] + 1)]
    chosen = [value for value, start, stop in zip(values, offsets, ends, strict=True) if start < end and stop > border]
    if offsets[0] >= border:
        raise Failure("its answer does not begin with the prompt")
    if not all(isinstance(value, int | float) and math.isfinite(value) and value <= 1e-3 for value in chosen):
        raise Failure("its answer has log-probabilities that are none")
    return {"logprob": float(sum(chosen)), "num_tokens": len(chosen)}


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _choice(found: Any) -> dict[str, Any]:
    choices = found.get("choices") if isinstance(found, dict) else None
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise Failure("its answer has no choices")
    return choices[0]


def _clean(text: str, key: str | None) -> str:
    """Return text that can be written as UTF-8: half a surrogate pair cannot."""
    return without_key(text.encode("utf-8", "replace").decode("utf-8"), key)
