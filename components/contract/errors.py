"""Errors written for people: what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class PosttrainError(Exception):
    """Base of all errors that are shown as one message, never as a traceback."""

    exit_code = 1


class InputError(PosttrainError, ValueError):
    """The user's input (recipe, parameter, name, file) is wrong; nothing has run."""

    exit_code = 2


class UnknownName(InputError):
    """A name that is not registered; the message holds near misses and the whole list."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        """`hint` replaces the near miss and the list with advice on this name."""
        self.kind, self.name, self.known, self.hint = kind, name, sorted(known), hint
        super().__init__(f"unknown {kind} {name!r}{f'; {hint}' if hint else did_you_mean(name, self.known)}")


class CorruptArtifact(PosttrainError):
    """Stored bytes differ from their recorded digest; the message names the file."""


class GateFailed(PosttrainError):
    """A stage's output did not meet a data gate or a metric gate."""


class StoppedByAlarm(GateFailed):
    """An alarm ended its stage, as `on_alarm: stop` asks for, or its steps since a checkpoint (`rollback`)."""


class Moved(GateFailed):
    """A stage ended at a step's border, or did not begin, since its run goes on elsewhere."""


class BudgetSpent(GateFailed):
    """A stage ended at a step's border, or did not begin, since its run has spent its budget."""


class StageFailed(PosttrainError):
    """A stage ended without its outputs."""


class OperatorFailed(StageFailed):
    """An operator raised, or returned what its slot cannot use; the message names it with file and line.

    `edit` is the file and line to edit if the same call fails again, whatever is tried: the code is the user's own.
    `raised` is what the operator raised, if it did.
    """

    def __init__(self, message: str, *, edit: str | None = None, raised: BaseException | None = None) -> None:
        self.edit, self.raised = edit, raised
        super().__init__(message)


class NotFiniteError(StageFailed):
    """A training's loss or gradient became infinite or not a number."""


class StoreUnavailable(PosttrainError):
    """The store could not be reached within its bounded retries."""


def schema_problems(error: ValidationError, *, whole: str = "", most: int | None = None) -> str:
    """Return the problems that a pydantic schema found, in one line: "steps: Input should be ...; rl.lr: ...".

    `whole` names the value itself where no key is to blame; beyond `most` problems, only the rest's count is given.
    """
    entries = error.errors(include_url=False, include_input=False)
    told = []
    for entry in entries[:most]:
        place = path_text(entry["loc"]) or whole
        told.append(": ".join(part for part in (place, entry["msg"].removeprefix("Value error, ")) if part))
    rest = len(entries) - len(told)
    return "; ".join([*told, f"and {rest} more"] if rest else told)


def path_text(path: Iterable[str | int]) -> str:
    """Return the path to a value as people write it: "messages[0].role"."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, or None when nothing is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.55)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the tail of an unknown-name message: the near miss, then the whole list."""
    choices = sorted(known)
    near = nearest(name, choices)
    hint = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(choices) if choices else "none are registered"
    return f"{hint} (known: {listed})"
