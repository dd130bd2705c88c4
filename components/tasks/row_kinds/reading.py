"""What the kinds of judged rows share: their columns, their task, and reading a folder of them.

Columns are named as TRL names them, so that data sets of the hub need no renaming.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from components.contract.errors import InputError
from components.contract.messages import Message, check_task, transcript
from components.contract.terminal import short_line
from components.tasks.conversations import read_conversation
from components.tasks.rows import iter_rows
from components.tasks.source import BadRow
from components.tasks.weights import WEIGHT, checked_weight

Task = str | tuple[Message, ...]
"""A prompt, or a conversation that ends with the user."""
Kind = Literal["preferences", "labelled", "stepwise"]
COLUMNS: Mapping[Kind, frozenset[str]] = {
    "preferences": frozenset({"chosen", "rejected"}),
    "stepwise": frozenset({"completions", "labels"}),
    "labelled": frozenset({"completion"}),
}
"""Columns that tell a kind; no two kinds share one."""
SHOWN_CHARS = 60
MOST_NAMES = 12
"""Columns that a message names."""
LARGEST = (2 - 2**-23) * 2.0**127
"""The largest number of float32, in which losses are computed."""
R = TypeVar("R", bound="Judged")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What every kind of row holds."""

    task: Task
    """What was asked."""
    domain: str = ""
    """Group in mixtures and reports."""
    id: str | None = None
    weight: float = 1.0
    """Weight in a loss, from 0; only ratios count."""
    where: str = field(default="", compare=False)
    """Its file and line, for messages."""

    def row(self) -> dict[str, Any]:
        """Return the fields as those of a row; a conversation is in `messages`, as in other rows of ours."""
        asked = {"prompt": self.task} if isinstance(self.task, str) else {"messages": _plain(self.task)}
        more = {"domain": self.domain, "id": self.id, WEIGHT: self.weight if self.weight != 1.0 else None}
        return {**asked, **{name: value for name, value in more.items() if value not in (None, "")}}


def kind_of(row: Mapping[str, Any]) -> Kind | None:
    """Return the kind that a row's columns tell; None where they tell none."""
    return next((kind for kind, columns in COLUMNS.items() if columns <= row.keys()), None)


def judged_rows(folder: Path, read: Callable[[Mapping[str, Any]], R]) -> Iterator[R | BadRow]:
    """Yield the rows of a Dataset folder as `read` makes them of its objects, and what is wrong with the others."""
    for where, row in iter_rows(folder):
        try:
            yield replace(read(row), where=where)
        except InputError as error:
            yield BadRow(where, str(error))


def read_judged(folder: Path, read: Callable[[Mapping[str, Any]], R]) -> list[R]:
    """Return all rows of a Dataset folder; raise an InputError that begins with file and line for a bad one."""
    found = []
    for row in judged_rows(folder, read):
        if isinstance(row, BadRow):
            raise InputError(f"{row.where}: {row.problem}")
        found.append(row)
    return found


def with_columns(row: Mapping[str, Any], kind: Kind) -> None:
    """Raise InputError, which says what the row has instead, unless it has the columns of a kind."""
    missing = sorted(name for name in COLUMNS[kind] if row.get(name) is None)
    if missing:
        names = [short_line(name, SHOWN_CHARS) for name in sorted(row)]  # a file may call its columns anything
        more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
        raise InputError(
            f"no {' and no '.join(missing)}: a row of {kind} has {', '.join(sorted(COLUMNS[kind]))}; "
            f"this one has {', '.join([*names[:MOST_NAMES], *more]) or 'no columns'}"
        )


def shared_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Judged` holds beside the task."""
    domain, name = row.get("domain") or "", row.get("id")
    if not isinstance(domain, str):
        raise InputError(f"domain {shown(domain)} is no text")
    return {
        "domain": domain,
        "id": None if name is None else str(name),
        "weight": checked_weight(row.get(WEIGHT, 1.0)),
    }


def task_of(row: Mapping[str, Any]) -> Task:
    """Return the task of column `prompt`, or else of `messages`; a single message of the user is a prompt.

    Raises InputError where there is none, and for a conversation that does not end with the user.
    """
    column = next((name for name in ("prompt", "messages") if row.get(name)), None)
    if column is None:
        raise InputError("no prompt and no messages: nothing was asked")
    asked = row[column]
    if isinstance(asked, str) and not row.get("tools"):
        return checked_text(asked, column)
    if isinstance(asked, str):
        asked = [{"role": "user", "content": checked_text(asked, column)}]
    found = read_conversation(asked, column, row.get("tools"))
    if found.response is not None:
        raise InputError(f"{column} end with the assistant: the task ends with the user's last message")
    return as_task(found.messages)


def as_task(messages: tuple[Message, ...]) -> Task:
    """Return a task of messages, without marks for training; a single message of the user is a prompt."""
    plain = tuple(message.model_copy(update={"learn": None}) for message in messages)
    check_task(plain)
    return plain[0].content or "" if len(plain) == 1 and not plain[0].tools else plain


def task_text(task: Task) -> str:
    """Return a task as readable text."""
    return task if isinstance(task, str) else transcript(task)


def checked_text(value: Any, column: str) -> str:
    """Return a column's text; raise InputError if it is none, is blank, or holds half of a surrogate pair."""
    if not isinstance(value, str):
        raise InputError(f"{column} is {shown(value)}, expected text")
    if not value.strip():
        raise InputError(f"{column} is blank")
    return _whole_text(value, column)


def _whole_text(value: str, column: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{column}: half of a surrogate pair at character {error.start}") from error
    return value


def response_text(value: Any, column: str) -> str:
    """Return a column's response: a text, or the one message of the assistant in a list."""
    if isinstance(value, str):
        return checked_text(value, column)
    if not isinstance(value, list | tuple) or len(value) != 1 or not isinstance(value[0], Mapping):
        raise InputError(f"{column} is {shown(value)}, expected a text or one message of the assistant")
    # The rules of messages want a user's first; what is asked is known from elsewhere.
    found = read_conversation([{"role": "user", "content": "."}, value[0]], column)
    if found.response is None:
        raise InputError(f"{column} holds no text of the assistant")
    return checked_text(found.response, column)


def number_of(row: Mapping[str, Any], column: str) -> float | None:
    """Return a column's number, None where there is none.

    Raises InputError for anything else, and for a number that is not finite in float32.
    """
    value = row.get(column)
    if value is None:
        return None
    if is_number(value):
        return checked_size(float(value), f"{column} {shown(value)}")
    raise InputError(f"{column} {shown(value)} is no finite number")


def checked_size(value: float, name: str) -> float:
    """Return a finite number; raise InputError, which calls it `name`, if float32 has none so large."""
    if abs(value) <= LARGEST:
        return value
    raise InputError(f"{name} is too large: losses are computed in float32, which ends at 3.4e38")


def truth_of(value: Any, name: str) -> bool:
    """Return a label; raise InputError unless it is true or false, or 1 or 0, as some data sets write them."""
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    raise InputError(f"{name} {shown(value)} is neither true nor false (1 and 0 will do)")


def text_or_none(row: Mapping[str, Any], column: str, *, blank: bool = False) -> str | None:
    """Return a column's text, None where there is none or an empty one; with `blank` it may be white space alone."""
    value = row.get(column)
    if value is None or value == "":
        return None
    return _whole_text(value, column) if blank and isinstance(value, str) else checked_text(value, column)


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a finite number; true and false are none."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return usable and -sys.float_info.max <= value <= sys.float_info.max


def shown(value: Any) -> str:
    """Return a value for a message, short and in one line."""
    return short_line(repr(value), SHOWN_CHARS)


def _plain(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    return [message.model_dump() for message in messages]
