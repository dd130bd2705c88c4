"""A schedule in the lines of `posttrain plan`, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from components.contract.terminal import visible_line
from pipelines.recipe.grammar import format_duration
from pipelines.recipe.schedule.section import Schedule

NUM_TIMES = 3
HOW = "posttrain run --watch, or posttrain schedule --engine NAME"


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    """Yield what starts runs, and when next."""
    if schedule.cron:
        yield f"schedule: cron {schedule.cron.words}, next {', '.join(_times(schedule))}; {HOW}"
    if schedule.on:
        what = ", ".join(visible_line(item.text) for item in schedule.on)
        poll = format_duration(schedule.poll_seconds)
        yield f"schedule: whenever one of these changes, looked at every {poll}: {what}"


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule for scripts."""
    return {
        "cron": schedule.cron.text if schedule.cron else None,
        "timezone": schedule.cron.timezone if schedule.cron else None,
        "next": _times(schedule),
        "on": [{"kind": item.kind, "what": item.text} for item in schedule.on],
        "poll_seconds": schedule.poll_seconds,
    }


def _times(schedule: Schedule) -> list[str]:
    if schedule.cron is None:
        return []
    return [time.isoformat(timespec="minutes") for time in islice(schedule.cron.times(datetime.now(UTC)), NUM_TIMES)]
