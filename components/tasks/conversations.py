"""Conversations in the formats of data sets on the hub, converted to our messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from components.contract.errors import InputError
from components.contract.messages import ROLES, Message, check_messages, content_text, with_tools
from components.contract.tools import read_calls

ROLE_KEYS, CONTENT_KEYS = ("role", "from"), ("content", "value")
OTHER_NAMES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant"}
OTHER_NAMES |= {"observation": "tool", "function_call": "assistant"}
"""Role names in data sets with `from` and `value`, and in some others."""
CALL = "function_call"
"""The role of messages whose text is a call of a tool, in ShareGPT's form."""
KEPT = ("tool_call_id", "name")
"""Keys that a message keeps beside its text and its calls."""


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
        return only.content if only and not only.tools else None


def read_conversation(value: Any, column: str, tools: Any = None) -> Conversation:
    """Return the conversation that a column holds: `role` and `content`, or `from` and `value`.

    `tools` are those that the row offers.

    A last message of the assistant is the response; without content it is dropped, since that turn is open anyway.
    Raises InputError, in one line, for roles, contents or an order that items cannot have.
    """
    if not isinstance(value, list | tuple):
        raise InputError(f"column {column!r}: expected a list of messages, found {type(value).__name__}")
    messages = tuple(_message(entry, f"{column}[{position}]") for position, entry in enumerate(value))
    try:
        messages = with_tools(messages, tools)
        check_messages(messages)
    except InputError as error:
        raise InputError(f"column {column!r}: {error}") from error
    blank = next(
        (
            at
            for at, message in enumerate(messages)
            if message.content is not None and message.is_blank and message.role != "tool"
        ),
        0,
    )
    if blank:
        raise InputError(f"column {column!r}: messages[{blank}] ({messages[blank].role}) has no text")
    last = messages[-1]
    if last.tool_calls:
        raise InputError(
            f"column {column!r}: the last message calls tools, and a response is text; sft trains on such "
            "rows as they are"
        )
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
    try:
        text = content_text(next((entry[key] for key in CONTENT_KEYS if entry.get(key) is not None), None))
        calls = read_calls(entry.get("tool_calls"))
        if entry.get("from") == CALL and text is not None:
            text, calls = None, read_calls(f"[{text}]")
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    learn = entry.get("learn")
    if learn is not None and not isinstance(learn, bool):
        raise InputError(f"{place}: learn is {learn!r}, expected true or false")
    more = {key: str(entry[key]) for key in KEPT if entry.get(key) is not None}
    return Message(role=role, content=text, learn=learn, tool_calls=calls, **more)
