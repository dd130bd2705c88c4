"""A recipe's schedule as a DAG's: times are a cron timetable, data and models are assets; either starts a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAny, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable
from airflow.sdk.definitions.asset import BaseAsset

from pipelines.engines.airflow.assets import registered_model
from pipelines.engines.airflow.names import TAG

if TYPE_CHECKING:
    from pipelines.engines.airflow.graphs.drawing import Times
    from pipelines.recipe.schedule.section import Schedule
    from pipelines.triggers.record import Trigger

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def dag_schedule(wanted: Times | None) -> Any:
    """Return the `schedule` of a DAG: None for a recipe that a person starts."""
    if wanted is None:
        return None
    times = CronTriggerTimetable(wanted.cron[0], timezone=wanted.cron[1]) if wanted.cron else None
    assets = AssetAny(*(_asset(kind, text, wanted.poll_seconds) for kind, text in wanted.on)) if wanted.on else None
    if times is not None and assets is not None:
        return AssetOrTimeSchedule(timetable=times, assets=assets)
    return times if assets is None else assets


def trigger_of(context: Mapping[str, Any], schedule: Schedule | None) -> Trigger | None:
    """Return what started a DAG run, by its task's context; None for a person."""
    from pipelines.triggers.record import by_assets, by_time

    dag_run = context["dag_run"]
    kind = str(getattr(dag_run.run_type, "value", dag_run.run_type))
    if kind == "scheduled" and schedule is not None and schedule.cron:
        return by_time(schedule.cron, dag_run.run_after.astimezone(schedule.cron.zone))
    if kind == "asset_triggered":
        listed = context["triggering_asset_events"].values()  # by asset and by alias, so that some occur twice
        events = {(event.asset.name, event.timestamp): event for found in listed for event in found}
        return by_assets([_event(event) for event in events.values()])
    return None


def _asset(kind: str, text: str, poll_seconds: float) -> BaseAsset:
    if kind == "model":
        return registered_model(*text.removeprefix("models:/").split("@"))
    if kind == "asset":
        return Asset.ref(uri=text) if _URI.match(text) else Asset.ref(name=text)
    from pipelines.engines.airflow.trigger import ChangeTrigger

    uri = quote(text if kind == "s3" else f"file://{text}", safe=":/")
    watcher = AssetWatcher(name=uri, trigger=ChangeTrigger(kind, text, poll_seconds))
    whole = uri.rstrip("/")  # as Airflow stores a URI: with and without a slash it is one asset
    return Asset(name=whole, uri=whole, group=TAG, watchers=[watcher])


def _event(event: Any) -> dict[str, Any]:
    extra = dict(event.extra or {})
    payload = extra.get("payload") if extra.get("from_trigger") else None
    source = ".".join(filter(None, [event.source_dag_id, event.source_task_id]))
    found = {"asset": event.asset.name, "source": source or None, "time": event.timestamp.isoformat()}
    return found | {"extra": payload if payload is not None else extra}
