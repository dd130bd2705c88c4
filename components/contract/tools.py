"""Tools of a conversation as plain JSON: the functions that it offers, and an assistant's calls of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from components.contract.errors import InputError

MOST_DEPTH = 40
"""Levels of a tool's schema; deeper ones are no tool's."""


def read_tools(value: Any) -> tuple[dict[str, Any], ...]:
    """Return the functions that a row's `tools` describe: a list of objects, perhaps as JSON text; empty for none.

    Keys that are null are left out, as pyarrow adds them to rows that lack them. Raises a one-line InputError for
    anything else.
    """
    value = _parsed(value, "tools")
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(entry, Mapping | str) for entry in value):
        raise InputError(f"tools: expected a list of objects that describe functions, found {type(value).__name__}")
    tools = [_parsed(entry, f"tools[{at}]") for at, entry in enumerate(value)]
    nameless = next((at for at, tool in enumerate(tools) if not _name(tool)), None)
    if nameless is not None:
        raise InputError(f"tools[{nameless}]: expected an object with the `name` of a function, or one in `function`")
    return tuple(_without_nulls(tool, f"tools[{at}]") for at, tool in enumerate(tools))


def read_calls(value: Any) -> tuple[dict[str, Any], ...]:
    """Return an assistant's calls in OpenAI's form, `arguments` as an object, which templates expect.

    Raises a one-line InputError for a call without a name or with arguments that are no object.
    """
    value = _parsed(value, "tool_calls")
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InputError(f"tool_calls: expected a list of calls, found {type(value).__name__}")
    return tuple(_call(entry, f"tool_calls[{at}]") for at, entry in enumerate(value))


def calls_text(calls: tuple[dict[str, Any], ...]) -> str:
    """Return calls as readable text: name and arguments of each."""
    functions = [call["function"] for call in calls]
    return " ".join(f"{one['name']}({json.dumps(one['arguments'], ensure_ascii=False)})" for one in functions)


def _call(entry: Any, name: str) -> dict[str, Any]:
    entry = _parsed(entry, name)
    if not _name(entry):
        raise InputError(f"{name}: expected an object with the `name` and `arguments` of a function")
    function = entry["function"] if isinstance(entry.get("function"), Mapping) else entry
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = _without_nulls(arguments, name)
    else:  # as text, a null in it is meant
        arguments = _parsed(arguments, f"{name}.arguments") if arguments != "" else {}
    if arguments is not None and not isinstance(arguments, dict):
        raise InputError(f"{name}: the arguments are of type {type(arguments).__name__}; expected an object")
    read = {"type": "function", "function": {"name": function["name"], "arguments": arguments or {}}}
    identifier = entry.get("id")
    return read if identifier is None else {"id": str(identifier), **read}


def _name(tool: Any) -> str | None:
    if not isinstance(tool, Mapping):
        return None
    function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
    name = function.get("name")
    return name if isinstance(name, str) and name.strip() else None


def _parsed(value: Any, name: str) -> Any:
    """Return what a JSON text holds; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: text that is no JSON ({str(error)[:80]})") from error


def _without_nulls(value: Any, name: str, depth: int = 0) -> Any:
    if depth > MOST_DEPTH:
        raise InputError(f"{name}: objects within objects, more than {MOST_DEPTH} deep")
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(entry, name, depth + 1) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(entry, name, depth + 1) for entry in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(f"{name}: a value of type {type(value).__name__} is no JSON")
