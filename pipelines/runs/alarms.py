"""Alarms on screen: as they come, beside a stage while they last, and at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.runtime.alarms.words import alarm_line, event_lines, helps_line


class Alarms:
    """The alarms of one stage as far as they were told; an alarm that is told again, as after a retry, is not new."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], Mapping[str, Any]] = {}

    def take(self, event: Mapping[str, Any]) -> list[str]:
        """Take an alarm event; return its lines, empty if it was told before."""
        alarm = event["alarm"]
        key = alarm["name"], alarm["since"]
        before, self._told[key] = self._told.get(key), alarm
        return [] if before is not None and before["cleared"] == alarm["cleared"] else event_lines(event)

    @property
    def lasting(self) -> list[str]:
        """Return the names of the alarms that are not over."""
        return [alarm["name"] for alarm in self._told.values() if alarm["cleared"] is None]


def lasting_text(names: Iterable[str]) -> str:
    """Return the mark of a stage whose alarms last: "! loss_exploded"; empty without any."""
    return " ".join(f"! {name}" for name in names)


def ending_lines(stage: str, alarms: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (what is wrong, what usually helps) for each alarm of a stage, for the end of a run."""
    return [
        (f"{stage}: {alarm_line(alarm)}", helps_line(alarm) if alarm["cleared"] is None else "") for alarm in alarms
    ]
