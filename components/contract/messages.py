"""Messages of a conversation and the rules they follow; free of torch and tokenizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer, model_validator

from components.contract.errors import InputError, schema_problems
from components.contract.tools import calls_text, read_calls, read_tools

ROLES = ("system", "user", "assistant", "tool")


class Message(BaseModel):
    """One message. An assistant message without content or calls is an open turn, which the policy writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None
    """Text; none opens an assistant's turn, unless it calls tools."""
    learn: bool | None = None
    """Whether supervised training with `learn: marked` has this turn for a target."""
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Of an assistant: the calls of tools that it makes, in OpenAI's form with `arguments` as an object."""
    tool_call_id: str | None = None
    """Of a tool: the call that it answers."""
    name: str | None = None
    """Of a tool, or of who speaks; templates may write it."""
    tools: tuple[dict[str, Any], ...] = ()
    """Of the first message: the functions that the conversation offers, as `tools` of chat templates."""

    @model_validator(mode="before")
    @classmethod
    def _as_people_have_them(cls, fields: Any) -> Any:
        """Leave out keys that are null, as pyarrow adds them, and join content that is a list of texts."""
        if not isinstance(fields, Mapping):
            return fields
        try:
            given = {key: value for key, value in fields.items() if value is not None or key in ("role", "content")}
            if "tool_calls" in given:
                given["tool_calls"] = read_calls(given["tool_calls"])
            if "tools" in given:
                given["tools"] = read_tools(given["tools"])
            if "content" in given or given.get("tool_calls"):
                given["content"] = content_text(given.get("content"))
        except InputError as error:
            raise ValueError(str(error)) from error
        return given

    @model_serializer
    def _plain(self) -> dict[str, Any]:
        row: dict[str, Any] = {"role": self.role, "content": self.content}
        more = {name: getattr(self, name) for name in ("learn", "tool_call_id", "name")}
        row |= {name: value for name, value in more.items() if value is not None}
        return row | {name: list(value) for name in ("tool_calls", "tools") if (value := getattr(self, name))}

    def __hash__(self) -> int:
        """Return a hash of role and text: calls and tools are dicts, which have none."""
        return hash((self.role, self.content))

    @property
    def is_open(self) -> bool:
        """Return whether the policy writes this message."""
        return self.role == "assistant" and self.content is None and not self.tool_calls

    @property
    def is_blank(self) -> bool:
        """Return whether it has neither text nor calls."""
        return not (self.content or "").strip() and not self.tool_calls

    @property
    def text(self) -> str:
        """Return what is said, calls included, as readable text."""
        return " ".join(part for part in (self.content, calls_text(self.tool_calls)) if part)

    def for_template(self) -> dict[str, Any]:
        """Return what a chat template gets of it; without text it is empty, which templates can trim."""
        row = {key: value for key, value in self._plain().items() if key not in ("learn", "tools")}
        return row if self.content is not None else {**row, "content": ""}

    def content_of_id(self) -> dict[str, Any]:
        """Return what tells a message from another: its role and content, and tools where there are any."""
        return {key: value for key, value in self._plain().items() if key not in ("learn", "tool_call_id", "name")}


def content_text(value: Any) -> str | None:
    """Return a message's text, joined from its parts if it has any; raise InputError for parts that are no text."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise InputError(f"the content is of type {type(value).__name__}; expected text")
    texts = []
    for part in value:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise InputError(f"a part of the content is {kind!r}; only parts of type text can be read yet")
        texts.append(part["text"])
    return "".join(texts)


def with_tools(messages: Sequence[Message], tools: Any) -> tuple[Message, ...]:
    """Return messages that offer a row's `tools`; raise InputError if they offer some already, or for no tools."""
    offered = read_tools(tools)
    if not offered or not messages:
        return tuple(messages)
    first = messages[0]
    if first.tools and first.tools != offered:
        raise InputError("tools: the row and its first message offer different ones")
    return (first.model_copy(update={"tools": offered}), *messages[1:])


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

    Behind an assistant's calls come the results of tools, and then the assistant again. Only assistant turns may be
    open, call tools or set `learn`, and only the first message may offer tools.
    """
    turns = messages[1:] if messages and messages[0].role == "system" else messages
    if not turns:
        raise InputError("messages: there is none of the user")
    first = len(messages) - len(turns)
    wanted: tuple[str, ...] = ("system",) if first else ("user",)
    for position, message in enumerate(messages):
        name = f"messages[{position}]"
        if message.role not in wanted:
            raise InputError(
                f"{name} is of the {message.role}, where one of the {wanted[0]} belongs: after a system message, if "
                "any, user and assistant take turns, and behind an assistant's calls come results of tools"
            )
        wanted = _followers(message)
        _check_parts(name, message, is_first=position == 0)


def _followers(message: Message) -> tuple[str, ...]:
    """Return the roles that may follow a message."""
    if message.role == "assistant":
        return ("tool",) if message.tool_calls else ("user",)
    return {"system": ("user",), "user": ("assistant",), "tool": ("assistant", "tool")}[message.role]


def _check_parts(name: str, message: Message, *, is_first: bool) -> None:
    if message.role in ("system", "user") and not (message.content or "").strip():
        raise InputError(f"{name} ({message.role}) has no content; only an assistant's message may be open")
    if message.role == "tool" and message.content is None:
        raise InputError(f"{name} (tool) has no content: a result without any is an empty text")
    if message.role != "assistant" and message.learn is not None:
        raise InputError(f"{name} ({message.role}) has `learn`, which only an assistant's message can have")
    if message.role != "assistant" and message.tool_calls:
        raise InputError(f"{name} ({message.role}) has `tool_calls`, which only an assistant's message can have")
    if message.tools and not is_first:
        raise InputError(f"{name} offers `tools`, which only the first message can: they are the row's")
    if message.content is not None and not message.content.isascii():
        _check_unicode(name, message.content)


def without_tools(messages: Sequence[Message], name: str) -> Sequence[Message]:
    """Return messages that have no part in tools; raise InputError for others, where only roles and texts are sent."""
    if any(message.tools or message.tool_calls or message.role == "tool" for message in messages):
        raise InputError(f"{name}: messages with tools are not sent to a server yet; sample the model locally")
    return messages


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
    return "\n".join(f"{m.role}: {'...' if m.is_open else m.text}" for m in messages)


def has_conversation(row: Mapping[str, Any]) -> bool:
    """Return whether a row holds messages, or a prompt with its response that is asked with tools."""
    return bool(row.get("messages") or (row.get("tools") and {"prompt", "response"} <= row.keys()))


def conversation_of(row: Mapping[str, Any]) -> tuple[Message, ...] | None:
    """Return the whole conversation that a row trains on or shows; None for a row without messages.

    `response` is its last turn and `turns` fill the open turns of `messages` before it; the response is marked as
    learnt unless the row has `learn: false`. Without a response, `messages` are the whole conversation. Raises a
    one-line InputError for messages, turns or a response that do not fit together.
    """
    if not has_conversation(row):
        return None
    listed = row.get("messages") or [{"role": "user", "content": row["prompt"]}]
    messages = with_tools(read_messages(listed), row.get("tools"))
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
