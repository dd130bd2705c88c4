"""The watch of one stage: which of its alarms are raised, since which step, and which are over.

Its state follows from the rows alone, so that a resumed stage, which takes its earlier rows again, has the same alarms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from components.contract.alarms import Alarm
from components.runtime.alarms.gauges import Reading, Row, gauge_of, number_text


@dataclass
class Raised:
    """An alarm that was raised; it may be over."""

    name: str
    since: int
    """The step at which it began: the first of the rows in a row beyond the bound."""
    raised: int
    """The step at which it was raised."""
    text: str
    """What is wrong."""
    helps: str
    """What usually helps."""
    bound: float
    cleared: int | None = None
    """The step at which it was over; None while it lasts."""

    def json(self) -> dict[str, Any]:
        """Return it as a record."""
        return asdict(self)


class Watch:
    """Takes the rows of one stage's history in order and keeps its alarms, in the order in which they were raised."""

    def __init__(
        self,
        alarms: Iterable[Alarm],
        *,
        bounds: Mapping[str, float | None] | None = None,
        helps: Mapping[str, str] | None = None,
    ) -> None:
        """`bounds` replace those of alarms by name, None turns one off; `helps` are their texts with names in them."""
        bounds, self._helps = bounds or {}, helps or {}
        chosen = ((alarm, bounds.get(alarm.name, alarm.bound)) for alarm in alarms)
        self._states = [_State(alarm, bound) for alarm, bound in chosen if bound is not None]
        self.raised: list[Raised] = []

    @property
    def active(self) -> list[Raised]:
        """Return the alarms that last."""
        return [item for item in self.raised if item.cleared is None]

    @property
    def changes(self) -> int:
        """Return how many times an alarm was raised or cleared."""
        return len(self.raised) + sum(item.cleared is not None for item in self.raised)

    def take(self, step: int, row: Row, lost: Collection[str] = ()) -> list[Raised]:
        """Take one row; return the alarms that it raises or clears. `lost` are its columns that were not finite."""
        changed = []
        for state in self._states:
            state.take(step, row, lost)
        for state in self._states:  # every state first: an alarm that another explains may be due in the same row
            if state.item is not None and state.calm >= state.alarm.rows:
                state.item.cleared = step
                changed.append(state.item)
                state.item = None
        for state in self._states:
            if state.item is None and state.is_due and not self._is_explained(state.alarm):
                changed.append(self._raise(state, step))
        return changed

    def raise_now(self, name: str, step: int, text: str) -> Raised | None:
        """Raise an alarm by an error instead of a row; None if it is off, not declared, or raised already."""
        state = next((state for state in self._states if state.alarm.name == name), None)
        if state is None or state.item is not None:
            return None
        state.start = step
        return self._raise(state, step, text)

    def _raise(self, state: _State, step: int, text: str = "") -> Raised:
        alarm = state.alarm
        item = Raised(
            name=alarm.name,
            since=step if state.start is None else state.start,
            raised=step,
            text=text or state.text(),
            helps=self._helps.get(alarm.name, alarm.helps),
            bound=state.bound,
        )
        state.item, state.calm = item, 0
        self.raised.append(item)
        return item

    def _is_explained(self, alarm: Alarm) -> bool:
        return any(item.name in alarm.explained_by for item in self.active)


class _State:
    """One alarm: its gauge, and how many rows in a row were beyond the bound or within it."""

    def __init__(self, alarm: Alarm, bound: float) -> None:
        self.alarm, self.bound = alarm, bound
        self._gauge = gauge_of(alarm.rule)
        self._reading: Reading | None = None
        self._beyond = 0
        self.calm = 0
        self.start: int | None = None
        """Step of the first of the rows in a row beyond the bound."""
        self.item: Raised | None = None

    @property
    def is_due(self) -> bool:
        return self._beyond >= self.alarm.rows

    def take(self, step: int, row: Row, lost: Collection[str]) -> None:
        """Take one row; one without a reading changes nothing."""
        reading = self._gauge.take(row, lost)
        if reading is None:
            return
        if self.alarm.is_beyond(reading.figure, self.bound) and not self._is_excused(row):
            self.start = step if not self._beyond else self.start
            self._beyond, self.calm, self._reading = self._beyond + 1, 0, reading
        else:
            self._beyond, self.calm, self.start = 0, self.calm + 1, None

    def text(self) -> str:
        """Return what is wrong, with the newest reading."""
        shown = dict(self._reading.shown) if self._reading else {}
        return self.alarm.says.format(**shown, bound=number_text(self.bound), rows=self.alarm.rows)

    def _is_excused(self, row: Row) -> bool:
        if self.alarm.unless is None:
            return False
        column, least = self.alarm.unless
        return row.get(column, least - 1) >= least
