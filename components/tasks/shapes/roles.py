"""Roles of columns: by the names that people give them, and by what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import short_line
from components.tasks.shapes.shape import Role
from components.tasks.shapes.values import at, is_chat

Columns = Mapping[Role, str | None]
SHOWN = 60
NAMES: Mapping[Role, tuple[str, ...]] = {
    "prompt": ("prompt", "question", "problem", "query", "instruction", "input"),
    "input": ("input",),
    "messages": ("messages", "conversations", "conversation", "context_messages"),
    "system": ("system", "system_prompt"),
    "history": ("history",),
    "response": ("completion", "response", "output"),
    "answer": ("answer", "final_answer", "reward_model.ground_truth", "ground_truth", "expected_answer", "target"),
    "chosen": ("chosen", "chosen_response"),
    "rejected": ("rejected", "rejected_response"),
    "label": ("label", "kto_tag", "desirable"),
    "text": ("text",),
    "domain": ("domain", "data_source"),
    "weight": ("weight",),
    "tools": ("tools",),
}
"""Names that people's columns have; where a row has several of a role, the first counts."""


class RoleColumns:
    """The columns of a file's first rows, as they are given roles."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], said: Columns) -> None:
        """`said` are the columns that the recipe names."""
        self._rows, self._said = rows, said
        self._names = list(dict.fromkeys(name for row in rows for name in row))
        self._found: dict[Role, str] = {}

    def _take(self, *roles: Role) -> None:
        """Find the columns of roles that are there, none for two roles."""
        for role in roles:
            column = self._find(role)
            if column and role not in self._found and column not in self._found.values():
                self._found[role] = column

    def _need(self, *roles: Role) -> None:
        self._take(*roles)
        for role in roles:
            if role not in self._found:
                raise self._undecided(f"no column is known as {role}", **{role: "..."})

    def _find(self, role: Role) -> str | None:
        """Return the column of a role: the recipe's, or the first known one that holds something it can hold."""
        if name := self._said.get(role):
            if self._value(name) is None:
                raise self._undecided(f"no column {name!r}, which the recipe names")
            return name
        taken = {name for other, name in self._said.items() if name and other != role}
        fits = FITS.get(role)
        known = (name for name in NAMES[role] if name not in taken and self._holds(name))
        return next((name for name in known if fits is None or fits(self._value(name))), None)

    def _holds(self, name: str) -> bool:
        return self._value(name) is not None

    def _value(self, name: str) -> Any:
        return next(iter(self._values(name)), None)

    def _values(self, name: str) -> list[Any]:
        return [value for row in self._rows if (value := at(row, name)) is not None and value != ""]

    def _undecided(self, problem: str, **columns: str) -> InputError:
        names = ", ".join(short_line(name, SHOWN) for name in self._names[:12])
        line = ", ".join(f"{role}: {column}" for role, column in columns.items())
        write = f"; write columns: {{{line}}}" if line else ""
        return InputError(f"{problem} (columns: {names}){write}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


FITS = {
    "domain": _is_text,
    "system": _is_text,
    "input": _is_text,
    "history": lambda value: isinstance(value, list),
    "weight": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "prompt": lambda value: isinstance(value, str) or is_chat(value),
    "response": lambda value: isinstance(value, str) or is_chat(value),
    "messages": is_chat,
}
"""What a column must hold to play a role that its name alone does not tell."""
