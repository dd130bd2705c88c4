"""What a run says of its trigger: `kind`, a line `text` for people, and the facts behind it.

The record of a run's beginning holds it; `show`, the report and MLflow show its `text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from components.contract.terminal import visible_line
from pipelines.recipe.schedule.cron import Cron
from pipelines.triggers.change import Change

Trigger = dict[str, Any]

MAX_WORDS = 500


def by_time(cron: Cron, time: datetime, changes: Sequence[Change] = ()) -> Trigger:
    """Return the trigger of a run that a time of `cron` started; `changes` are those since the last run."""
    moment = time.isoformat(timespec="minutes")
    return {
        "kind": "cron",
        "cron": cron.text,
        "timezone": cron.timezone,
        "time": moment,
        **({"changes": [change.to_json() for change in changes]} if changes else {}),
        "text": "; ".join([f"cron {cron.words}, {moment}", *(change.words for change in changes)]),
    }


def by_data(changes: Sequence[Change]) -> Trigger:
    """Return the trigger of a run that changed data started."""
    return {
        "kind": "data",
        "changes": [change.to_json() for change in changes],
        "text": "; ".join(change.words for change in changes),
    }


def by_assets(events: Sequence[dict[str, Any]]) -> Trigger:
    """Return the trigger of a run that events of Airflow's assets started: each `asset`, `source` and `extra`."""
    return {
        "kind": "asset",
        "events": list(events),
        "text": "; ".join(dict.fromkeys(visible_line(_event_words(event))[:MAX_WORDS] for event in events)),
    }


def _event_words(event: dict[str, Any]) -> str:
    """Return an event in words; those of our own watchers say what has changed."""
    if changed := event["extra"].get("text"):
        return str(changed)
    return f"asset {event['asset']}" + (f" of {event['source']}" if event.get("source") else "")
