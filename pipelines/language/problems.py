"""Problems of a recipe: each has a location, and all are collected before the recipe is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError, nearest

MAX_SHOWN = 60
MAX_LISTED = 24

_YAML = {None: "null", True: "true", False: "false"}
_STAGE = re.compile(r"^stage '[^']*', ")


@dataclass(frozen=True, order=True, slots=True)
class Mark:
    """A location in a file, line and column counted from 1; or, with line 0, something outside of files."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One mistake: its location, what is wrong, what was expected and what was probably meant."""

    mark: Mark
    message: str

    def __str__(self) -> str:
        return f"{self.mark}: {self.message}"


class RecipeErrors(InputError):
    """All problems of a recipe in line order; the message has one line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class Problems:
    """Collects problems; one that affects several stages (through an alias, a matrix, the defaults) counts once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Mark, str], Problem] = {}

    def add(self, mark: Mark, message: str) -> None:
        """Note a problem and continue."""
        self._found.setdefault((mark, _STAGE.sub("", message)), Problem(mark, message))

    def unknown(self, mark: Mark, kind: str, name: object, known: Iterable[str], hint: str = "") -> None:
        """Note an unknown name, with `hint` or else its near miss and the list of known names."""
        text = str(name)
        self.add(mark, f"unknown {kind} {shown(text)}{f'; {hint}' if hint else meant(text, known)}")

    def stop(self) -> None:
        """Raise RecipeErrors if anything was noted."""
        if self._found:
            raise RecipeErrors(self._found.values())

    def __len__(self) -> int:
        return len(self._found)


def meant(name: str, known: Iterable[str]) -> str:
    """Return the tail of a message about an unknown name: the near miss, and the known names unless they are many."""
    choices = list(known)
    near = nearest(name[:MAX_SHOWN], choices)
    hint = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(choices[:MAX_LISTED]) or "there are none"
    if len(choices) > MAX_LISTED:
        if near:
            return hint
        listed += f" and {len(choices) - MAX_LISTED} more"
    return f"{hint} (known: {listed})"


def shown(value: Any) -> str:
    """Return a value for a message: one line, escaped, and short; true, false and null as in YAML."""
    text = _YAML[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 12]}...{text[-9:]}"
