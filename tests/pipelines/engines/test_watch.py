"""Watching for a recipe, by a clock of the test's own: what fires when, what is one run, and what is only told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.engines.watch import Watch
from pipelines.recipe.schedule.cron import Cron
from pipelines.recipe.schedule.section import Schedule, watched
from pipelines.runs.runs import RunResult
from pipelines.triggers import listing as listings
from pipelines.triggers.record import Trigger
from tests.support.fault_proxy import FaultProxy
from tests.support.s3_server import in_memory_writer

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 11, 23, 2, 58, tzinfo=BERLIN)


@dataclass
class Scene:
    """A watcher, its clock, and what happens at which second."""

    folder: Path
    cron: str = ""
    run_seconds: float = 10.0
    statuses: list[str] = field(default_factory=list)
    """How runs end, first one first; afterwards they succeed."""
    refusals: list[str] = field(default_factory=list)
    """Why the next runs do not even begin."""
    seconds: float = 0.0
    events: list[tuple[float, Callable[[], Any]]] = field(default_factory=list)
    runs: list[tuple[float, str]] = field(default_factory=list)
    triggers: list[Trigger] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    to_resume: list[str] = field(default_factory=list)
    answered: bool = False
    first: datetime = START
    uri: str = ""

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    def watch(self, until: float, name: str = "me") -> int:
        """Watch until a second of the clock, at which Ctrl-C is pressed."""
        on = (
            ()
            if self.cron and not self.rows.exists() and not self.uri
            else (watched(self.uri or str(self.rows), None),)
        )
        schedule = Schedule(Cron.read(self.cron, "Europe/Berlin") if self.cron else None, on, 5.0)
        self.until = until
        return Watch(
            name=name,
            schedule=schedule,
            store=open_store(str(self.folder / "store")),
            start=self.start,
            resume=self.resume,
            answered=lambda run_id: self.answered,
            tell=self.told.append,
            now=lambda: self.first + timedelta(seconds=self.seconds),
            pause=self.pass_time,
        ).run()

    def pass_time(self, seconds: float) -> None:
        assert 0 < seconds <= 30
        end = self.seconds + seconds
        for event in sorted(self.events, key=lambda event: event[0]):
            if event[0] <= end:
                self.events.remove(event)
                event[1]()
        self.seconds = end
        if self.seconds >= self.until:
            raise KeyboardInterrupt

    def start(self, trigger: Trigger) -> RunResult:
        if self.refusals:
            raise InputError(self.refusals.pop(0))
        self.runs.append((round(self.seconds), trigger["text"]))
        self.triggers.append(trigger)
        return self._end(f"run-{len(self.runs)}")

    def resume(self) -> RunResult | None:
        return self._end(self.to_resume.pop(0)) if self.to_resume else None

    def _end(self, run_id: str) -> RunResult:
        for _ in range(int(self.run_seconds)):
            self.pass_time(1.0)
        status = self.statuses.pop(0) if self.statuses else "succeeded"
        return RunResult(run_id, status, 0, {}, None, None)

    def at(self, second: float, do: Callable[[], Any]) -> None:
        self.events.append((second, do))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_time_fires_once_and_says_which_it_was(scene: Scene) -> None:
    scene.cron = "0 3 * * *"
    assert scene.watch(1.5 * 86_400) == 0
    assert [second for second, _ in scene.runs] == [120, 120 + 86_400]
    assert scene.triggers[0]["time"] == "2026-11-23T03:00+01:00"
    assert scene.runs[0][1] == "cron 0 3 * * * (Europe/Berlin), 2026-11-23T03:00+01:00"
    assert scene.told[0].startswith("waiting for cron 0 3 * * * (Europe/Berlin), next 2026-11-23T03:00+01:00")
    assert scene.told[-1] == "no longer watching"


def test_the_night_in_which_the_clocks_change_has_one_run(scene: Scene) -> None:
    scene.cron, scene.first = "30 2 * * *", datetime(2026, 10, 24, 23, 0, tzinfo=BERLIN)
    scene.watch(1.5 * 86_400)
    shown = [trigger["time"] for trigger in scene.triggers]
    assert shown == ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]


def test_times_that_pass_during_a_run_start_one_run_after_it(scene: Scene) -> None:
    scene.cron, scene.run_seconds = "* * * * *", 200
    scene.watch(600)
    assert [second for second, _ in scene.runs] == [60, 260, 460]
    assert [trigger["time"][11:16] for trigger in scene.triggers] == ["02:59", "03:02", "03:05"], "the last of them"


def test_times_before_it_began_are_not_caught_up_on(scene: Scene) -> None:
    scene.cron = "0 3 * * *"
    scene.first = START + timedelta(minutes=10)
    scene.watch(3600)
    assert scene.runs == []


def test_data_start_a_run_when_they_have_stopped_changing(scene: Scene) -> None:
    scene.at(12, scene.rows.mkdir)
    for second in (12, 17, 22):
        scene.at(second, lambda second=second: (scene.rows / f"{second}.jsonl").write_text("x"))
    scene.watch(300)
    assert scene.runs == [(30, f"{scene.rows}: 3 new (12.jsonl, 17.jsonl, 22.jsonl)")]
    assert scene.triggers[0]["kind"] == "data" and scene.triggers[0]["changes"][0]["new"][0] == "12.jsonl"
    assert scene.told[0].endswith(f"a change of {scene.rows} (nothing there yet); Ctrl-C ends it")


def test_what_changes_during_a_run_starts_one_more_and_what_was_seen_none(scene: Scene) -> None:
    scene.rows.mkdir()
    (scene.rows / "a").write_text("1")
    scene.at(8, lambda: (scene.rows / "b").write_text("2"))
    scene.at(11, lambda: (scene.rows / "c").write_text("3"))
    scene.watch(200)
    assert [text.split(": ", 1)[1] for _, text in scene.runs] == ["1 new (a)", "2 new (b, c)"]
    again = Scene(scene.folder)
    again.watch(200)
    assert again.runs == [], "what the last run saw is in the store"
    (scene.rows / "a").unlink()
    later = Scene(scene.folder)
    later.watch(200)
    assert later.runs[0][1].endswith("1 gone (a)"), "what changed while nobody watched"


def test_a_time_also_takes_the_data_that_are_new(scene: Scene) -> None:
    scene.rows.mkdir()
    scene.cron = "0 3 * * *"
    scene.at(112, lambda: (scene.rows / "a").write_text("1"))
    scene.watch(300)
    assert len(scene.runs) == 1, scene.runs


@pytest.mark.parametrize("status", ["failed", "succeeded"])
def test_it_goes_on_after_a_failed_run_and_does_not_repeat_it(scene: Scene, status: str) -> None:
    scene.rows.mkdir()
    (scene.rows / "a").write_text("1")
    scene.statuses = [status]
    scene.at(100, lambda: (scene.rows / "b").write_text("2"))
    scene.watch(300)
    assert [text.split(": ", 1)[1] for _, text in scene.runs] == ["1 new (a)", "1 new (b)"]


def test_a_run_that_cannot_begin_is_tried_again_and_said_once(scene: Scene) -> None:
    scene.rows.mkdir()
    (scene.rows / "a").write_text("1")
    scene.refusals = ["recipe.yaml:3: a\x1b[2J mistake"] * 3
    scene.watch(600)
    assert len(scene.runs) == 1 and scene.runs[0][0] > 20
    assert [line for line in scene.told if "mistake" in line] == [
        "no run could start: recipe.yaml:3: a\\x1b[2J mistake"
    ]


def test_a_stopped_run_ends_it_and_the_next_watcher_goes_on_with_it(scene: Scene) -> None:
    scene.rows.mkdir()
    (scene.rows / "a").write_text("1")
    scene.statuses = ["stopped"]
    assert scene.watch(300) == 130
    again = Scene(scene.folder, to_resume=["run-1"], run_seconds=1)
    again.watch(300)
    assert again.to_resume == []
    assert [text.split(": ", 1)[1] for _, text in again.runs] == ["1 new (a)"], "no run has seen it whole"


def test_a_run_that_waits_for_a_person_holds_the_others_back(scene: Scene) -> None:
    scene.rows.mkdir()
    (scene.rows / "a").write_text("1")
    scene.statuses = ["waiting"]
    scene.at(50, lambda: (scene.rows / "b").write_text("2"))

    def answer() -> None:
        scene.answered = True
        scene.to_resume.append("run-1")

    scene.at(100, answer)
    scene.watch(300)
    assert [text.split(": ", 1)[1] for _, text in scene.runs] == ["1 new (a)", "1 new (b)"]
    assert scene.runs[1][0] > 100 and scene.to_resume == []
    assert "waiting for a decision on run run-1; what fires meanwhile starts one run afterwards" in scene.told


def test_a_second_watcher_of_the_recipe_is_refused_and_another_recipe_is_not(scene: Scene) -> None:
    scene.rows.mkdir()
    refused = []

    def second() -> None:
        with pytest.raises(InputError) as error:
            Scene(scene.folder).watch(1)
        refused.append(str(error.value))
        Scene(scene.folder).watch(1, name="other")

    scene.at(3, second)
    scene.watch(20)
    assert len(refused) == 1 and refused[0].startswith("this recipe is watched already: watch-me: locked by process")
    assert Scene(scene.folder).watch(1) == 0, "the lock is freed"


def test_a_server_that_dies_is_said_once_and_asked_less_and_less(
    scene: Scene, s3_uri: str, fault_proxy: Callable[..., FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "PATIENCE_SECONDS", 0.0)
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    proxy = fault_proxy(share=0.0, kinds=("error503", "drop"))
    scene.uri, scene.run_seconds = f"{s3_uri}/", 1.0
    scene.at(7, lambda: setattr(proxy, "share", 1.0))
    scene.at(100, lambda: setattr(proxy, "share", 0.0))
    scene.at(100, lambda: in_memory_writer(bucket, prefix)("a", b"1"))
    scene.watch(200)
    assert len([line for line in scene.told if "could not be used" in line]) == 1
    assert proxy.injected.total() < 12, "5, 10, 20, 40 s between the looks, each with two requests"
    assert all("\n" not in line for line in scene.told)
    assert f"{s3_uri}/ answers again" in scene.told
    assert [text for _, text in scene.runs] == [f"{s3_uri}/: 1 new (a)"]
