"""Schedules in Airflow: timetables, assets, and the trigger that watches for the triggerer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable
from airflow.triggers.base import BaseEventTrigger
from pendulum import instance

from components.contract.errors import StoreUnavailable
from pipelines.engines.airflow.dag import recipe_dag
from pipelines.engines.airflow.timing import dag_schedule, trigger_of
from pipelines.engines.airflow.trigger import ChangeTrigger
from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.schedule.cron import Cron
from pipelines.recipe.schedule.section import Schedule, Watched
from pipelines.triggers import listing as listings

CRON = Cron("0 3 * * *", "Europe/Berlin")
S3 = Watched("s3", "s3://bucket/rows ü?#/")


def serialized(folder: Path, schedule: str) -> dict[str, Any]:
    """Return a recipe's DAG as Airflow's database holds it."""
    (folder / "fed.yaml").write_text(
        f"name: fed\nschedule: {schedule}\n"
        "stages: {measure: {uses: evaluate, in: {model: hf:a/b, dataset: /rows}}}\n"
    )
    dag = recipe_dag(load_recipe(str(folder / "fed.yaml"), whole=True), "fed")
    encoded = DagSerialization.to_dict(dag)
    decoded = DagSerialization.from_dict(encoded)
    assert (decoded.max_active_runs, decoded.catchup) == (1, False)
    found: dict[str, Any] = encoded["dag"]["timetable"]["__var"]
    return found


def test_times_alone_are_a_cron_timetable(tmp_path: Path) -> None:
    found = serialized(tmp_path, '{cron: "0 3 * * *", timezone: Europe/Berlin}')
    assert (found["expression"], found["timezone"], found["run_immediately"]) == ("0 3 * * *", "Europe/Berlin", False)


def test_times_and_data_are_either_of_both_with_a_watcher_for_each(tmp_path: Path) -> None:
    on = '["s3://bucket/rows ü?#/", ./x, {asset: w/rows}, {asset: "x-db://a/b"}, "models:/net@champion"]'
    found = serialized(tmp_path, f'{{cron: "0 3 * * *", on: {on}, poll: 5s}}')
    assert found["timetable"]["__var"]["expression"] == "0 3 * * *"
    s3, path, name, uri, model = found["asset_condition"]["objects"]
    assert found["asset_condition"]["__type"] == "asset_any"
    assert s3["uri"] == "s3://bucket/rows%20%C3%BC%3F%23" and path["uri"] == f"file://{tmp_path}/x"
    [watcher] = s3["watchers"]
    assert watcher["trigger"]["classpath"] == f"{ChangeTrigger.__module__}.ChangeTrigger"
    assert watcher["trigger"]["kwargs"] == {"kind": "s3", "text": "s3://bucket/rows ü?#/", "poll_seconds": 5.0}
    assert (name["name"], uri["uri"]) == ("w/rows", "x-db://a/b")
    assert model["uri"] == "posttrain://models/net@champion" and not model.get("watchers")


def test_the_trigger_is_what_the_triggerer_makes_again() -> None:
    trigger = ChangeTrigger("s3", S3.text, 5.0)
    path, arguments = trigger.serialize()
    assert isinstance(trigger, BaseEventTrigger) and path.endswith(".ChangeTrigger")
    assert ChangeTrigger(**arguments).serialize() == trigger.serialize()
    assert dag_schedule(None) is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("text", ["30 2 * * *", "0 * * * *", "*/15 1-3 * * *", "0 12 13 * 5", "59 23 31 12 *"])
def test_our_times_are_airflows(text: str, zone: str) -> None:
    """Around both changes of the clock, and over the end of a year."""
    timetable = CronTriggerTimetable(text, timezone=zone)
    for start in ("2026-03-28T20:00", "2026-10-24T20:00", "2026-03-07T20:00", "2026-12-31T20:00", "2026-04-04T08:00"):
        begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
        last = instance(begin)
        theirs = []
        for _ in range(6):
            info = timetable.next_dagrun_info(
                last_automated_data_interval=DataInterval.exact(last), restriction=TimeRestriction(None, None, True)
            )
            last = info.run_after
            theirs.append(datetime.fromtimestamp(last.timestamp(), UTC))
        assert [time.astimezone(UTC) for time in islice(Cron(text, zone).times(begin), 6)] == theirs, start


async def first_event(trigger: ChangeTrigger) -> Any:
    """Return the first event of a trigger that then goes on; None if it has none in so many looks."""
    found = None
    with contextlib.suppress(Enough):
        async for event in trigger.run():
            assert found is None, "told twice"
            found = event
    return found


class Enough(Exception):
    """The trigger has looked as often as the test wants."""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a trigger for some looks; the first ones find a server that is away."""
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))
    listed = listings.Lister.list

    def watch(item: Watched, looks: int, away: int = 0) -> Any:
        done: list[Watched] = []

        def look(self: listings.Lister, item: Watched) -> listings.Listing:
            done.append(item)
            if len(done) > looks:
                raise Enough
            if len(done) <= away:
                raise StoreUnavailable("away")
            return listed(self, item)

        monkeypatch.setattr(listings.Lister, "list", look)
        return asyncio.run(first_event(ChangeTrigger(item.kind, item.text, 0.001)))

    return watch


def test_a_change_is_told_with_what_is_new_and_only_once(tmp_path: Path, watch: Callable[..., Any]) -> None:
    rows = Watched("path", str(tmp_path / "rows"))
    (tmp_path / "rows").mkdir()
    assert watch(rows, looks=3) is None, "nothing there"
    (tmp_path / "rows" / "a").write_text("1")
    assert watch(rows, looks=1) is None, "it may still be changing"
    event = watch(rows, looks=6)
    assert (event.payload["new"], event.payload["num_new"]) == (["a"], 1)
    assert event.payload["text"] == f"{rows.text}: 1 new (a)"
    assert watch(rows, looks=4) is None, "what was handled outlives the triggerer"
    (tmp_path / "rows" / "b").write_text("2")
    assert watch(rows, looks=4).payload["new"] == ["b"]


def test_a_bucket_that_is_away_is_asked_again(tmp_path: Path, watch: Callable[..., Any]) -> None:
    (tmp_path / "a").write_text("1")
    assert watch(Watched("path", str(tmp_path / "a")), looks=6, away=3).payload["new"] == ["a"]


def event(name: str, **extra: Any) -> Any:
    at = datetime(2026, 11, 23, 2, tzinfo=UTC)
    asset = SimpleNamespace(name=name)
    return SimpleNamespace(asset=asset, timestamp=at, extra=extra, source_dag_id="etl", source_task_id="load")


def test_what_started_a_dag_run_in_words() -> None:
    def context(kind: str, **more: Any) -> dict[str, Any]:
        run = SimpleNamespace(run_type=kind, run_after=datetime(2026, 11, 23, 2, 0, tzinfo=UTC))
        return {"dag_run": run, **more}

    schedule = Schedule(CRON, (S3,))
    timed = trigger_of(context("scheduled"), schedule)
    assert timed["text"] == "cron 0 3 * * * (Europe/Berlin), 2026-11-23T03:00+01:00"
    assert trigger_of(context("manual"), schedule) is None
    one, ours = event("w/rows"), event("s3://bucket/rows", from_trigger=True, payload={"text": "s3: 1 new (a)"})
    events = {Asset(name="w/rows"): [one], AssetAlias(name="alias"): [one], Asset(name="s3"): [ours]}
    told = trigger_of(context("asset_triggered", triggering_asset_events=events), schedule)
    assert told["text"] == "asset w/rows of etl.load; s3: 1 new (a)" and len(told["events"]) == 2
