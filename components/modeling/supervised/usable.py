"""Rows that have nothing to teach, or whose text would be read as a mark of the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.contract.messages import conversation_of
from components.modeling.text.turn_ends import TurnEnds
from components.modeling.text.turns import check_rendered, mark_in


def problem_of(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, row: Mapping[str, Any]) -> str | None:
    """Return why a demonstration cannot be trained on, in one line; None if it can, or is of no known form."""
    try:
        talk = conversation_of(row)
        if talk is not None:
            check_rendered(tokenizer, ends, talk)
    except InputError as error:
        return str(error)
    if talk is not None:
        empty = next((at for at, one in enumerate(talk) if one.role == "assistant" and one.is_blank), None)
        return None if empty is None else f"messages[{empty}] (assistant) is blank: there is nothing to learn"
    if "response" not in row or "prompt" not in row:
        return None
    prompt, response = row["prompt"], row["response"]
    if not isinstance(prompt, str):
        return f"the prompt is of type {type(prompt).__name__}; expected text (a conversation belongs in `messages`)"
    if response is not None and not isinstance(response, str):
        return f"the response is of type {type(response).__name__}; expected text"
    if _is_blank(response):
        return f"the response is {'null' if response is None else 'blank'}: there is nothing to learn"
    return cut_by(tokenizer, ends, response)


def cut_by(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, response: str) -> str | None:
    """Return why a response would not be read whole: it names a mark before its end; None if it does not."""
    body = without_end(tokenizer, ends, response)
    mark = mark_in(tokenizer, ends, body)
    if mark is not None:
        return (
            f"the response contains {mark!r}, which ends a turn or begins another: what follows it would not be read "
            "as the response; remove the mark or the row"
        )
    return None if body.strip() else "the response is an end mark alone: there is nothing to learn"


def without_end(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, response: str) -> str:
    """Return a response without an end mark that some data sets write behind it."""
    body = response.rstrip()
    marks = [mark for mark in tokenizer.convert_ids_to_tokens(list(ends.ids)) if mark]
    closing = next((mark for mark in marks if body.endswith(mark)), None)
    return response if closing is None else body.removesuffix(closing)


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()
