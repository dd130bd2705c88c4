"""What starts runs of a recipe by themselves: times, data and models, checked when the recipe is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.job import reference_text
from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.schedule.cron import Cron
from pipelines.recipe.schedule.section import Watched
from pipelines.recipe.schedule.summary import schedule_json, schedule_lines
from tests.pipelines.writing import load, messages, stages, with_stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")
STAGE = 'train: {uses: rl, in: {model: "models:/quickstart@champion", dataset: data.dataset}}'


def scheduled(schedule: str, head: str = "") -> str:
    return with_stages(STAGE, f"{head}\nschedule: {schedule}")


def test_times_and_all_that_can_be_watched(tmp_path: Path) -> None:
    on = '["s3://bucket/pre fix ü#?/", "s3://bucket", ./rows, {asset: warehouse/rows}, "models:/quickstart@champion"]'
    text = scheduled(f'{{cron: "0 3 * * MON-fri", timezone: Europe/Berlin, on: {on}, poll: 5m}}')
    found = load(tmp_path, text).schedule
    assert found is not None
    assert found.cron == Cron("0 3 * * mon-fri", "Europe/Berlin")
    assert found.on == (
        Watched("s3", "s3://bucket/pre fix ü#?/"),
        Watched("s3", "s3://bucket/"),
        Watched("path", str(tmp_path / "rows")),
        Watched("asset", "warehouse/rows"),
        Watched("model", "models:/quickstart@champion"),
    )
    assert found.poll_seconds == 300
    assert load(tmp_path, with_stages(STAGE)).schedule is None


def test_parameters_may_say_what_is_watched_and_overrides_change_it(tmp_path: Path) -> None:
    text = scheduled('{on: "${params.rows}"}', "params: {rows: s3://bucket/rows/}")
    assert load(tmp_path, text).schedule.on == (Watched("s3", "s3://bucket/rows/"),)
    other = load(tmp_path, text, "rows=s3://other/rows/", "schedule.poll=2s").schedule
    assert (other.on, other.poll_seconds) == ((Watched("s3", "s3://other/rows/"),), 2.0)
    assert load(tmp_path, text, "schedule=null").schedule is None


def test_a_child_inherits_the_schedule_and_can_drop_it(tmp_path: Path) -> None:
    write(tmp_path, scheduled('{cron: "0 3 * * *"}'), "parent.yaml")
    child = load_recipe(str(write(tmp_path, "extends: ./parent.yaml\nschedule: {timezone: Europe/Berlin}", "a.yaml")))
    assert child.schedule.cron == Cron("0 3 * * *", "Europe/Berlin")
    other = load_recipe(str(write(tmp_path, "extends: ./parent.yaml\nschedule: null", "b.yaml")))
    assert other.schedule is None


@pytest.mark.parametrize(
    "schedule, message",
    [
        ('{cron: "61 * * * *"}', "2:18 schedule.cron: got '61 * * * *', out of range; expected five fields"),
        ('{cron: "0 3 * *"}', "2:18 schedule.cron: got '0 3 * *', expected five fields"),
        ('{cron: "0 0 3 * * *"}', "2:18 schedule.cron: got '0 0 3 * * *', expected five fields"),
        ('{cron: "@daily"}', "2:18 schedule.cron: got '@daily', expected five fields"),
        ('{cron: "0 0 L * *"}', "day of the month 'l': expected numbers, names"),
        ('{cron: "0 0 * * 5#2"}', "day of the week '5#2': expected numbers, names"),
        ('{cron: "H 0 * * *"}', "minute 'h': expected numbers, names"),
        ('{cron: "0 0 30 2 *"}', "no time that it means ever comes"),
        ("{cron: 7}", "2:18 schedule.cron: got 7, expected text"),
        (
            '{cron: "0 3 * * *", timezone: Europe/Berln}',
            "2:41 schedule.timezone: got 'Europe/Berln', unknown time zone",
        ),
        ('{cron: "0 3 * * *", timezone: ../../etc/passwd}', "unknown time zone, expected a name such as Europe/Berlin"),
        ("{timezone: UTC}", "2:12 schedule.timezone: there is no 'cron' that it could be for"),
        ("{}", "2:1 schedule: neither 'cron' nor 'on' says when a run starts"),
        ("{on: []}", "neither 'cron' nor 'on'"),
        ("[1]", "2:11 schedule: got [1], expected a mapping"),
        ('"0 3 * * *"', "expected a mapping"),
        ("{crn: x}", "2:12 schedule: unknown key 'crn'; did you mean 'cron'?"),
        ("{on: x, poll: 0.5s}", "schedule.poll: expected at least 1s"),
        ("{on: hf:a/b}", "schedule.on: got 'hf:a/b', expected s3://bucket/prefix/, a path, models:/name@alias"),
        ("{on: s3://B/x}", "schedule.on: got 's3://B/x', expected s3://bucket/prefix/"),
        ("{on: s3:/bucket/x}", "expected s3://bucket/prefix/"),
        ("{on: models:/quickstart/3}", "a version never changes"),
        ('{on: "models:/a b@c"}', "expected models:/name@alias or models:/name/version"),
        ("{on: [7]}", "schedule.on.0: got 7, expected"),
        ('{on: [{asset: ""}]}', "expected {asset: name}"),
        ("{on: [{assett: x}]}", "expected {asset: name}"),
        ('{on: "${params.nope}"}', "unknown name 'params.nope'"),
    ],
)
def test_what_no_engine_could_do_is_said_at_its_line(tmp_path: Path, schedule: str, message: str) -> None:
    found = messages(tmp_path, scheduled(schedule).lstrip())
    assert any(message in one for one in found), found


def test_the_earlier_word_names_the_new_one(tmp_path: Path) -> None:
    [message] = messages(tmp_path, with_stages(STAGE, "triggered_by: [quickstart@champion]"))
    assert "'triggered_by'; write 'schedule: {on: [models:/name@alias]}'" in message


def test_the_models_that_start_it_may_be_read(tmp_path: Path) -> None:
    train = stages(load(tmp_path, scheduled('{on: "models:/quickstart@champion"}')))["train"]
    assert [reference_text(one) for one in train.inputs["model"]] == ["models:/quickstart@champion"]


@pytest.mark.parametrize("name", ["quickstart@champion", "/quickstart", "/quickstart@1", "/a b@c"])
def test_what_names_no_registered_model(tmp_path: Path, name: str) -> None:
    text = with_stages(f'train: {{uses: rl, in: {{model: "models:{name}", dataset: data.dataset}}}}')
    [message] = messages(tmp_path, text)
    assert "expected models:/name@alias or models:/name/version" in message


def times(cron: Cron, start: str, count: int) -> list[str]:
    begin = datetime.fromisoformat(start).replace(tzinfo=cron.zone)
    return [time.isoformat(timespec="minutes") for time in islice(cron.times(begin), count)]


def test_a_time_that_the_clocks_skip_is_an_hour_later_and_one_that_they_show_twice_fires_once() -> None:
    nightly = Cron("30 2 * * *", "Europe/Berlin")
    assert times(nightly, "2026-03-28T12:00", 2) == ["2026-03-29T03:30+02:00", "2026-03-30T02:30+02:00"]
    assert times(nightly, "2026-10-24T12:00", 2) == ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]


def test_what_fires_every_hour_does_so_when_the_clocks_change() -> None:
    hourly = Cron("0 * * * *", "Europe/Berlin")
    spring = ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"]
    autumn = ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"]
    assert times(hourly, "2026-03-29T00:30", 3) == spring
    assert times(hourly, "2026-10-25T01:30", 3) == autumn


def test_days_of_month_and_week_are_one_or_the_other() -> None:
    assert Cron("0 0 13 * 5", "UTC").fields == ("0", "0", "13", "*", "5")
    fridays_and_the_13th = times(Cron("0 0 13 * 5", "UTC"), "2026-11-01T00:00", 3)
    assert fridays_and_the_13th == ["2026-11-06T00:00+00:00", "2026-11-13T00:00+00:00", "2026-11-20T00:00+00:00"]
    assert Cron("*/20 1-2 * jan 7", "UTC").fields == ("0,20,40", "1,2", "*", "1", "0")


@settings(max_examples=50, deadline=None)
@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)),
    st.sampled_from(["*/7 * * * *", "0 3 * * *", "30 1,2,3 * * *", "15 0-23/6 * * 1-5", "0 0 29 2 *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_times_are_later_and_show_the_clock_that_they_ask_for(start: datetime, text: str, zone: str) -> None:
    cron = Cron.read(text, zone)
    begin = start.replace(tzinfo=UTC)
    first, second = islice(cron.times(begin), 2)
    assert begin < first < second
    assert cron.last(begin, second) == second and cron.last(begin, first - timedelta(seconds=1)) is None
    minutes = cron.fields[0].split(",") if cron.fields[0] != "*" else [str(number) for number in range(60)]
    wall = first.astimezone(ZoneInfo(zone))
    moved = wall.utcoffset() != (wall - timedelta(hours=2)).astimezone(UTC).astimezone(ZoneInfo(zone)).utcoffset()
    assert moved or str(wall.minute) in minutes


def test_the_plan_says_what_fires_next_without_control_characters(tmp_path: Path) -> None:
    found = load(tmp_path, scheduled('{cron: "0 3 * * *", on: ["s3://bucket/rows/", ./x], poll: 2m}')).schedule
    [cron, on] = schedule_lines(found)
    shown = schedule_json(found)
    assert cron.startswith(f"schedule: cron 0 3 * * * (UTC), next {shown['next'][0]}, {shown['next'][1]}, ")
    assert on == f"schedule: whenever one of these changes, looked at every 2m: s3://bucket/rows/, {tmp_path}/x"
    assert [item["kind"] for item in shown["on"]] == ["s3", "path"]
