"""Requests to writers as items, so that models read a prompt and programs read what it was made of."""

from __future__ import annotations

from typing import Any

from components.synthesize.templates import fill
from components.tasks.item import Item, item_id

REQUEST = "request"
"""Key of a request's data: what is asked for. The parts of its prompt are beside it, by their names."""


def ask(item: Item, request: str, template: str, *, shown: dict[str, str] | None = None, **data: Any) -> Item:
    """Return a request about an item: its prompt is the template, filled with {prompt}, {answer} and `shown`.

    Data holds `request`, `shown` and `data`, for programs; nothing of it is in the rows.
    """
    parts = shown or {}
    prompt = fill(template, **{"prompt": item.prompt, "answer": item.answer, **parts})
    told = {**item.data, **parts, **data, REQUEST: request}
    return item.model_copy(update={"prompt": prompt, "messages": (), "data": told})


def judgement(item: Item, prompt: str, answer: str) -> Item:
    """Return the item that asks for a judgement of a response to `item`, answered by one word."""
    return Item(
        id=item_id(item.domain, prompt, answer), domain=item.domain, prompt=prompt, answer=answer, verifier="exact"
    )
