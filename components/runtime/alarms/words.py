"""What people read of an alarm, the same on every engine: one line of what is wrong and one of what usually helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.contract.alarms import PLACE, Alarm
from components.contract.params import Params
from components.contract.terminal import visible_line


def helps_by_name(alarms: Iterable[Alarm], params: Params, written: Mapping[str, str]) -> dict[str, str]:
    """Return alarm -> what usually helps, each parameter by its name in the recipe and with its value.

    `written` maps a parameter's dotted path to its name in the recipe; without an entry the path stands for itself.
    """

    def named(path: str) -> str:
        name, value = written.get(path, path), _value(params, path)
        return name if value is None else f"{name} ({value})"

    return {alarm.name: PLACE.sub(lambda match: named(match[1]), alarm.helps) for alarm in alarms}


def since_text(alarm: Mapping[str, Any]) -> str:
    """Return when an alarm began, and that it is over if it is."""
    over = "" if alarm["cleared"] is None else f", over at step {alarm['cleared']}"
    return f"since step {alarm['since']}{over}"


def alarm_line(alarm: Mapping[str, Any]) -> str:
    """Return an alarm's record in one line, without what helps."""
    return f"alarm {alarm['name']} {since_text(alarm)}: {visible_line(alarm['text'])}"


def helps_line(alarm: Mapping[str, Any]) -> str:
    """Return what usually helps, in one line."""
    return f"usually helps: {visible_line(alarm['helps'])}"


def event_lines(event: Mapping[str, Any]) -> list[str]:
    """Return the lines of an alarm event: what is wrong and what usually helps, or that it is over."""
    alarm = event["alarm"]
    return [alarm_line(alarm), *([helps_line(alarm)] if alarm["cleared"] is None else [])]


def _value(params: Any, path: str) -> str | None:
    """Return a parameter's value as text; None for one that is not set, or is no plain value."""
    value = params
    for step in path.split("."):
        value = getattr(value, step, None)
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else None
