"""Conversations in the formats of data sets on the hub, converted to our messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from components.contract.errors import InputError
from components.contract.messages import ROLES, Message, check_messages

ROLE_KEYS, CONTENT_KEYS = ("role", "from"), ("content", "value")
OTHER_NAMES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant"}
"""Role names in data sets with `from` and `value`, and in some others."""


class Conversation(NamedTuple):
    """The content of a column of messages: the task, and the response to it if the column ends with one."""

    messages: tuple[Message, ...]
    response: str | None
    learn: bool | None
    """Whether the response is marked as learnt; None if it has no mark."""

    @property
    def prompt(self) -> str | None:
        """Return the user's text if it is the whole task, which is then an ordinary prompt."""
        only = self.messages[0] if len(self.messages) == 1 else None
        return only.content if only else None


def read_conversation(value: Any, column: str) -> Conversation:
    """Return the conversation that a column holds: `role` and `content`, or `from` and `value`.

    A last message of the assistant is the response; without content it is dropped, since that turn is open anyway.
    Raises InputError, in one line, for roles, contents or an order that items cannot have.
    """
    if not isinstance(value, list | tuple):
        raise InputError(f"column {column!r}: expected a list of messages, found {type(value).__name__}")
    messages = tuple(_message(entry, f"{column}[{position}]") for position, entry in enumerate(value))
    try:
        check_messages(messages)
    except InputError as error:
        raise InputError(f"column {column!r}: {error}") from error
    blank = next(
        (at for at, message in enumerate(messages) if message.content is not None and not message.content.strip()), 0
    )
    if blank:
        raise InputError(f"column {column!r}: messages[{blank}] ({messages[blank].role}) has no text")
    last = messages[-1]
    if last.role == "assistant":
        return Conversation(messages[:-1], last.content, last.learn)
    return Conversation(messages, None, None)


def _message(entry: Any, place: str) -> Message:
    if not isinstance(entry, Mapping):
        raise InputError(f"{place}: expected an object with role and content, found {type(entry).__name__}")
    role = next((entry[key] for key in ROLE_KEYS if entry.get(key) is not None), None)
    role = OTHER_NAMES.get(role, role) if isinstance(role, str) else role
    if role not in ROLES:
        raise InputError(f"{place}: the role is {role!r}; messages are of {', '.join(ROLES)}")
    if entry.get("tool_calls"):
        raise InputError(f"{place}: calls tools, which messages cannot hold yet; drop such rows (bad_rows: drop)")
    content = _content(next((entry[key] for key in CONTENT_KEYS if entry.get(key) is not None), None), place)
    learn = entry.get("learn")
    if learn is not None and not isinstance(learn, bool):
        raise InputError(f"{place}: learn is {learn!r}, expected true or false")
    return Message(role=role, content=content, learn=learn)


def _content(value: Any, place: str) -> str | None:
    """Return text, joined from its parts if it has any; None without any text."""
    if not isinstance(value, list | tuple):
        if value is None or isinstance(value, str):
            return value
        raise InputError(f"{place}: the content is of type {type(value).__name__}; expected text")
    texts = []
    for part in value:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            found = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise InputError(f"{place}: a part of the content is {found!r}; only parts of type text can be read yet")
        texts.append(part["text"])
    return "".join(texts)
