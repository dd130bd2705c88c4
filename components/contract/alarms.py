"""How a component declares its alarms: signs that a training has gone wrong, read from the rows that a stage logs.

A declaration is data in the component's folder, like its display, and no part of a fingerprint. A rule reduces the rows
so far to one figure; an alarm is raised when the figure has been beyond its bound for some rows in a row, and cleared
when it has been within it for as many. components/runtime/alarms evaluates them for every stage and engine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from components.contract.errors import InputError

OnAlarm = Literal["warn", "stop", "rollback"]
"""What an alarm does to its stage."""
PLACE = re.compile(r"\{([a-z0-9_.]+)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Level:
    """The figure is the value of `column`. Readings for texts: {value}."""

    column: str
    below: bool = False
    """Whether the alarm is for values at or below the bound; else for values above it."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How far `column` is above the best of its past, in units of that best or of 1, whichever is larger.

    The best is the smaller of the first value and the lowest mean of `window` rows in a row. Readings: {value}, {best}.
    """

    column: str
    window: int = 5
    below = False


@dataclass(frozen=True, kw_only=True)
class Remainder:
    """What is left of `column`, as a share of its mean over the first `window` rows, both counted from `floor`.

    Undefined if the beginning is less than `floor` + 1. Readings: {value}, {start}.
    """

    column: str
    floor: float = 0.0
    window: int = 5
    below = True


@dataclass(frozen=True, kw_only=True)
class Quotient:
    """`part` as a share of `whole` in each row. Readings: {value}, the share in per cent."""

    part: str
    whole: str
    below = False


@dataclass(frozen=True, kw_only=True)
class Stillness:
    """The larger of a row's spread and the change of its mean since the row before. Readings: {value}, the mean."""

    mean: str
    spread: str
    below = True


@dataclass(frozen=True, kw_only=True)
class Parting:
    """How far the mean of `down` over `window` rows fell below its best while that of `up` rose since; 0 if it did not.

    For a reward that is gamed: it rises while a measure that is not trained on falls. Readings: {value}, {best}.
    """

    up: str
    down: str
    window: int = 20
    below = False


@dataclass(frozen=True, kw_only=True)
class Alone:
    """How far one of the columns that begin with `prefix` rose while no other of them and none of `beside` did.

    In units of its standard deviation over the first `window` rows, as a mean of `window` rows; a column that rose by
    less than one such unit did not rise. For the part of a reward that is gamed. Undefined with fewer than two columns.
    Readings: {part}, {value}, {start}.
    """

    prefix: str
    without: tuple[str, ...] = ()
    """Columns that begin so and do not count."""
    beside: tuple[str, ...] = ()
    window: int = 20
    below = False


@dataclass(frozen=True, kw_only=True)
class NotFinite:
    """How many of `columns` are infinite or not a number in a row. Readings: {value}, their names."""

    columns: tuple[str, ...]
    below = False


Rule = Level | Growth | Remainder | Quotient | Stillness | Parting | Alone | NotFinite


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """A sign that a training has gone wrong."""

    name: str
    """Name in recipes, the ledger and MLflow's tags: "loss_exploded"."""
    rule: Rule
    bound: float
    """The figure beyond which the alarm holds; a recipe may set another."""
    rows: int
    """How many logged rows in a row must be beyond the bound, and within it again, to raise and clear the alarm."""
    says: str
    """What is wrong, with the rule's readings, {bound} and {rows}: "the loss rose to {value} from {best}"."""
    helps: str
    """What usually helps; {optimizer.peak_learning_rate} becomes the parameter's name in the recipe and its value."""
    reason: str
    """Why this bound, with its source if there is one."""
    unless: tuple[str, float] | None = None
    """A column and a value: a row in which the column is at least that is within the bound."""
    explained_by: tuple[str, ...] = ()
    """Alarms with the same cause: while one of them is raised, this one is not."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"alarm {self.name!r}: a name is lower case letters, digits and '_'")
        if self.rows < 1 or not math.isfinite(self.bound):
            raise InputError(f"alarm {self.name!r}: needs a finite bound, and at least 1 row")

    def is_beyond(self, figure: float, bound: float) -> bool:
        """Return whether a figure is beyond a bound."""
        return figure <= bound if self.rule.below else figure > bound

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the dotted paths of the parameters that `helps` names."""
        return tuple(PLACE.findall(self.helps))


def check_alarms(owner: str, alarms: Iterable[Alarm]) -> None:
    """Raise InputError if two alarms have one name, or one is explained by an alarm that is not declared."""
    declared = list(alarms)
    names = [alarm.name for alarm in declared]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"component {owner!r}: alarm {twice[0]!r} is declared twice")
    for alarm, name in _explanations(declared):
        if name not in names:
            raise InputError(f"component {owner!r}: alarm {alarm!r} is explained by {name!r}, which is not declared")


def _explanations(alarms: Iterable[Alarm]) -> Iterator[tuple[str, str]]:
    return ((alarm.name, name) for alarm in alarms for name in alarm.explained_by)
