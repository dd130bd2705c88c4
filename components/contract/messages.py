"""Messages of a conversation and the rules they follow; free of torch and tokenizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer

from components.contract.errors import InputError, schema_problems

ROLES = ("system", "user", "assistant")


class Message(BaseModel):
    """One message. An assistant message without content is an open turn, which the policy writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: str | None
    """Text; none opens an assistant's turn."""
    learn: bool | None = None
    """Whether supervised training with `learn: marked` has this turn for a target."""

    @model_serializer
    def _plain(self) -> dict[str, str | bool | None]:
        row: dict[str, str | bool | None] = {"role": self.role, "content": self.content}
        return row if self.learn is None else {**row, "learn": self.learn}

    @property
    def is_open(self) -> bool:
        """Return whether the policy writes this message."""
        return self.role == "assistant" and self.content is None


class _Row(BaseModel):
    messages: tuple[Message, ...]


def read_messages(value: Any) -> tuple[Message, ...]:
    """Return messages from plain JSON, such as a row's; raise a one-line InputError if they are malformed."""
    try:
        return _Row.model_validate({"messages": value}).messages
    except ValidationError as error:
        raise InputError(schema_problems(error, most=1)) from error


def check_messages(messages: Sequence[Message]) -> None:
    """Raise a one-line InputError unless user and assistant alternate after an optional system message.

    Only assistant turns may be open or set `learn`.
    """
    turns = messages[1:] if messages and messages[0].role == "system" else messages
    if not turns:
        raise InputError("messages: there is none of the user")
    first = len(messages) - len(turns)
    for position, message in enumerate(messages):
        name = f"messages[{position}]"
        wanted = "system" if position < first else ("user", "assistant")[(position - first) % 2]
        if message.role != wanted:
            raise InputError(
                f"{name} is of the {message.role}, where one of the {wanted} belongs: after a system message, if any, "
                "user and assistant take turns"
            )
        if message.role != "assistant" and not (message.content or "").strip():
            raise InputError(f"{name} ({message.role}) has no content; only an assistant's message may be open")
        if message.role != "assistant" and message.learn is not None:
            raise InputError(f"{name} ({message.role}) has `learn`, which only an assistant's message can have")
        if message.content is not None and not message.content.isascii():
            _check_unicode(name, message.content)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Prefix an InputError raised in this context with a name, if it is not empty."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}" if name else str(error)) from error


def check_task(messages: Sequence[Message]) -> None:
    """Raise InputError unless messages are valid and end with the user, so that the policy has the last turn."""
    check_messages(messages)
    if messages[-1].role == "assistant":
        raise InputError("messages end with the assistant: the turn behind the user's last message is the policy's")


def _check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: half of a surrogate pair at character {error.start}") from error


def num_turns(messages: Sequence[Message]) -> int:
    """Return how many turns the policy writes, including the implicit last one."""
    return sum(message.is_open for message in messages) + (messages[-1].role != "assistant")


def filled(messages: Sequence[Message], turns: Sequence[str]) -> tuple[Message, ...]:
    """Return the whole conversation: `turns` fill the open turns, in order, and the implicit last one.

    Fewer turns end the conversation early, after the last one written. Raises InputError for more.
    """
    if len(turns) > num_turns(messages):
        raise InputError(f"{len(turns)} turns were written where the messages have room for {num_turns(messages)}")
    written = iter(turns)
    whole: list[Message] = []
    for message in messages:
        if message.is_open:
            text = next(written, None)
            if text is None:
                return tuple(whole)
            message = Message(role="assistant", content=text, learn=message.learn)
        whole.append(message)
    whole += [Message(role="assistant", content=text) for text in written]
    return tuple(whole)


def written(turns: Sequence[str]) -> dict[str, Any]:
    """Return a row's fields for a policy's turns: the last is the `response`, earlier ones, if any, the `turns`."""
    *before, response = turns
    return {"turns": before, "response": response} if before else {"response": response}


def transcript(messages: Sequence[Message]) -> str:
    """Return messages as readable text: "user: ...", a line each; an open turn as "assistant: ..."."""
    return "\n".join(f"{m.role}: {'...' if m.content is None else m.content}" for m in messages)


def conversation_of(row: Mapping[str, Any]) -> tuple[Message, ...] | None:
    """Return the whole conversation that a row trains on or shows; None for a row without messages.

    `response` is its last turn and `turns` fill the open turns of `messages` before it; the response is marked as
    learnt unless the row has `learn: false`. Without a response, `messages` are the whole conversation. Raises a
    one-line InputError for messages, turns or a response that do not fit together.
    """
    if not row.get("messages"):
        return None
    messages = read_messages(row["messages"])
    check_messages(messages)
    if "response" not in row:
        return messages
    turns, response = row.get("turns") or [], row["response"]
    if (
        not isinstance(response, str)
        or not isinstance(turns, list | tuple)
        or not all(isinstance(t, str) for t in turns)
    ):
        raise InputError("`turns` and `response` hold what the policy wrote: a list of texts, and a text")
    if len(turns) + 1 != num_turns(messages):
        raise InputError(
            f"{len(turns)} `turns` and a response, where the policy has {num_turns(messages)} turns to write"
        )
    *before, last = filled(messages, [*turns, response])
    return (*before, Message(role="assistant", content=last.content, learn=row.get("learn", True)))
