"""Foreign rows brought into our columns, by their shape; the values are checked where the rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract.errors import InputError
from components.tasks.shapes.shape import Shape
from components.tasks.shapes.values import at, kept_value, messages_of

TRUTHS = {"true": True, "false": False, "1": True, "0": False}
"""Labels as CSV writes them."""


def converted(row: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a row with our columns: `prompt` or `messages`, and what else its kind has; `data` holds further columns.

    Raises InputError for a row without what its shape asks, and for values that cannot be kept.
    """
    columns = shape.columns
    found: dict[str, Any] = {} if shape.kind == "text" else _asked(row, shape)
    for role in ("answer", "domain", "weight", "tools", "text"):
        if role in columns and (value := at(row, columns[role])) is not None:
            found[role] = value
    if shape.kind == "pairs":
        found |= {side: messages_of(at(row, columns[side])) for side in ("chosen", "rejected")}
    elif shape.kind == "labelled":
        found |= _labelled(row, shape, found)
    elif "response" in columns and found.get("response") is None:
        found |= _answered(found, messages_of(at(row, columns["response"])))
    if "messages" in found:
        found.pop("prompt", None)
    data = {name: value for name in shape.kept if (value := kept_value(row.get(name), name)) is not None}
    return {**found, "data": data} if data else found


def _asked(row: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return `prompt`, or `messages` where a row has more than a text of the user; nothing where sides hold it."""
    columns = shape.columns
    if "messages" in columns:
        return {"messages": _with_system(messages_of(at(row, columns["messages"])), row, shape)}
    if "prompt" not in columns:
        return {}
    asked = messages_of(at(row, columns["prompt"]))
    if isinstance(asked, list):
        return {"messages": _with_system(asked, row, shape)}
    if "input" in columns and isinstance(more := at(row, columns["input"]), str) and more.strip():
        asked = f"{asked}\n\n{more}"
    history = _history(at(row, columns["history"])) if "history" in columns else []
    system = at(row, columns["system"]) if "system" in columns else None
    if not history and not system:
        return {"prompt": asked}
    return {"messages": _with_system([*history, {"role": "user", "content": asked}], row, shape)}


def _with_system(messages: Any, row: Mapping[str, Any], shape: Shape) -> Any:
    """Return messages behind the text of a system column; raise InputError if they have another one of their own."""
    system = at(row, shape.columns["system"]) if "system" in shape.columns else None
    if not system or not isinstance(messages, list):
        return messages
    first = messages[0] if messages and isinstance(messages[0], Mapping) else {}
    if first.get("role", first.get("from")) != "system":
        return [{"role": "system", "content": system}, *messages]
    if first.get("content", first.get("value")) == system:
        return messages
    raise InputError(f"column {shape.columns['system']!r} and the first message are two different system messages")


def _history(turns: Any) -> list[dict[str, Any]]:
    """Return LLaMA-Factory's earlier turns, pairs of a question and its answer, as messages."""
    if turns is None:
        return []
    if not isinstance(turns, list) or not all(isinstance(turn, list | tuple) and len(turn) == 2 for turn in turns):
        raise InputError("history is no list of pairs, each of a question and its answer")
    return [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]


def _labelled(row: Mapping[str, Any], shape: Shape, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return `completion` and `label`; without a column of its own, a conversation's last message is the completion."""
    label = at(row, shape.columns["label"])
    label = TRUTHS.get(label.strip().lower(), label) if isinstance(label, str) else label
    if "response" in shape.columns:
        return {"completion": messages_of(at(row, shape.columns["response"])), "label": label}
    messages = found.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InputError("there is no completion, and no conversation that ends with one")
    return {"messages": messages[:-1], "completion": messages[-1:], "label": label}


def _answered(found: Mapping[str, Any], response: Any) -> dict[str, Any]:
    """Return the response; one of messages continues the conversation that was asked."""
    if not isinstance(response, list):
        return {"response": response}
    asked = found["messages"] if "messages" in found else [{"role": "user", "content": found.get("prompt")}]
    if not isinstance(asked, list):
        raise InputError("the prompt is no list of messages, and the completion is one")
    return {"messages": [*asked, *response]}
