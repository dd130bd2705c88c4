"""Item: one prompt, or the messages of a conversation, with the answer that a verifier checks responses against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.contract.artifacts import canonical_json, hash_parts
from components.contract.errors import InputError, schema_problems
from components.contract.messages import Message, check_task, filled, read_messages, transcript, with_tools
from components.contract.tools import read_tools

ID_DIGITS = 12
UNLABELLED = "unlabelled"
"""The verifier of an item without an answer."""
RIGHT_RESPONSES = "right_responses"
"""Key of an item's data: the texts of all its right responses, where they can be listed."""


class Item(BaseModel):
    """One verifiable prompt or conversation. Rows of prompts, demonstrations and rollouts all hold these fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    id: str = Field(min_length=1)
    domain: str = Field(min_length=1)
    prompt: str
    """The prompt; for an item with messages, their readable text."""
    answer: str
    """The reference answer, as the verifier reads it; in a conversation, to its last turn. Empty if unlabelled."""
    verifier: str
    """Name in the operator slot "verifier"; "unlabelled" where there is no answer to verify against."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What the verifier needs beside the answer; JSON only. `data["settings"]` holds config keys of the verifier;
    `data["right_responses"]`, where they are few, every right response: what an exact evaluation scores."""
    messages: tuple[Message, ...] = ()
    """A conversation, in place of the prompt. An assistant's message without content is an open turn, which the
    policy writes; so is the turn after the last message, which is the user's."""

    @model_validator(mode="before")
    @classmethod
    def _prompt_of_messages(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        if not fields.get("messages") and read_tools(fields.get("tools")):
            fields = {**fields, "messages": [{"role": "user", "content": fields.get("prompt")}]}
        if "messages" not in fields:
            return fields
        if not fields["messages"]:
            return {name: value for name, value in fields.items() if name != "messages"}
        messages = with_tools(read_messages(fields["messages"]), fields.get("tools"))
        check_task(messages)
        return {**fields, "messages": messages, "prompt": transcript(messages)}

    @property
    def task(self) -> str | tuple[Message, ...]:
        """Return the policy's input: the messages if there are any, else the prompt."""
        return self.messages or self.prompt

    @property
    def is_unlabelled(self) -> bool:
        """Return whether there is no answer to verify responses against."""
        return self.verifier == UNLABELLED

    def unlabelled(self) -> Item:
        """Return the item with nothing but its task: no answer, no verifier, and no data, which may hold answers."""
        return self.model_copy(update={"answer": "", "verifier": UNLABELLED, "data": {}})

    def prompt_with(self, turns: Sequence[str]) -> str:
        """Return the prompt as readable text, with the policy's `turns` in the open turns before the last."""
        return transcript(filled(self.messages, turns)) if turns else self.prompt

    def row(self) -> dict[str, Any]:
        """Return the item as a row of a Dataset artifact of kind "prompts"."""
        row = self.model_dump()
        if not self.messages:
            del row["messages"]
        return row


def item_id(domain: str, task: str | Sequence[Message], answer: str) -> str:
    """Return an identifier of the content only, so that a prompt has the same id in every dataset and ledger."""
    if isinstance(task, str):
        return f"{domain}-{hash_parts(domain, task, answer)[:ID_DIGITS]}"
    content = canonical_json([message.content_of_id() for message in task]).decode()
    return f"{domain}-{hash_parts(domain, 'messages', content, answer)[:ID_DIGITS]}"


def text_id(domain: str, text: str) -> str:
    """Return an identifier of a plain text's content only."""
    return f"{domain}-{hash_parts(domain, text)[:ID_DIGITS]}"


def item_from_row(row: Mapping[str, Any], where: str) -> Item:
    """Return the item of a row of prompts, demonstrations or rollouts (whose id is called `prompt_id`).

    Raises InputError that begins with `where` when a field is missing or of the wrong type.
    """
    fields = row if "id" in row or "prompt_id" not in row else {**row, "id": row["prompt_id"]}
    try:
        return Item.model_validate(fields)
    except ValidationError as error:
        problems = schema_problems(error)
        raise InputError(f"{where}: not a row of prompts: {problems}") from error
