"""Stages that Airflow drives on a cluster, beside the chaos table: restarts after days, people, logs, the live view."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from components.contract.job import Job
from components.runtime.ledger.records import stage_entry, stage_key
from pipelines.engines.airflow.run import AirflowRun
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.reap import reap
from pipelines.engines.shared.follower import RETRYING, RUNNING
from tests.pipelines.engines.airflow.driven import AirflowDrive, Trigger, airflow_drive_of
from tests.pipelines.engines.driver.conftest import training  # noqa: F401 - a fixture
from tests.pipelines.engines.driver.drives import RUN, STAGE, Killed, kills
from tests.pipelines.engines.driver.test_chaos import check_end
from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster
from tests.support.api_server.events import OWN, WELL

RUNS = WELL["runs"]
HOURS = 3600.0


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[AirflowDrive]:
    """A stage that has not begun, on a pool of one node."""
    with airflow_drive_of(tmp_path) as made:
        yield made


def deferred(drive: AirflowDrive) -> tuple[Any, Any]:
    """Start the task; return its trigger and its context."""
    drive._start(by_person=True)
    context = drive.context()
    with pytest.raises(TaskDeferred) as left:
        drive.run(context)
    return left.value.trigger, context


def test_a_stage_leaves_its_log_and_its_pods_name(drive: AirflowDrive, capfd: pytest.CaptureFixture[str]) -> None:
    def writes(world: SimulatedCluster) -> None:
        (pod,) = world.pods(None, "Running")
        world.logs[pod["metadata"]["name"]] = "step 1 of 1\nharmless \x1b[31mred\n"

    drive.world.steps = [RUNS, writes, WELL["waits"]]
    assert drive.drive() == 0
    shown = capfd.readouterr().out
    assert "step 1 of 1" in shown and "\x1b[31mred" not in shown
    assert drive.pushed["pod_name"].startswith(drive.world.created[0]) and f"pod {drive.pushed['pod_name']} on" in shown
    assert drive.pushed["pod_namespace"] == NAMESPACE


def test_nothing_is_asked_of_kubernetes_for_what_is_settled(drive: AirflowDrive) -> None:
    entry = stage_entry(drive.job, status="skipped", cache="miss", started=0.0, ended=1.0, inputs={})
    drive.store.put(stage_key(RUN, STAGE), {**entry, "error": "its `when` does not hold"})
    drive._start(by_person=True)
    with pytest.raises(AirflowSkipException):
        drive.run(drive.context())
    assert drive.world.requests == []


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
def test_work_of_thirty_hours_is_found_again_after_everything_has_restarted(tmp_path: Path, kind: str) -> None:
    with airflow_drive_of(tmp_path, kind) as drive:
        trigger, context = deferred(drive)
        drive.world.stuck, drive.world.steps = True, [RUNS, kills(drive, Killed)]
        with pytest.raises(Killed):
            asyncio.run(drive._until_it_fires(drive.of_another_triggerer(trigger)))
        drive.world.seconds += 30 * HOURS
        assert drive.world.active(), "the work goes on without a triggerer"
        drive.world.stuck = False
        drive.run(context, drive.follow(trigger))
        assert len(drive.world.created) == 1
        check_end(drive, 0)


def test_work_that_ended_while_no_triggerer_and_no_scheduler_ran(drive: AirflowDrive) -> None:
    trigger, context = deferred(drive)
    drive.world.tick(1)
    OWN["fails"](drive.world)
    drive.world.seconds += 30 * HOURS
    event = drive.follow(trigger)
    with pytest.raises(TaskDeferred):  # it is tried again, since its recipe says so
        drive.run(context, event)
    assert drive.causes == ["failed"] and drive.record.due > drive.record.tries[0].ended


@pytest.mark.parametrize("name", ["marked failed", "marked as success", "deleted"])
def test_whoever_ends_the_task_frees_the_nodes(drive: AirflowDrive, name: str) -> None:
    drive.again = False
    drive.world.steps = [RUNS, drive.own[name]]
    assert drive.drive() == 143
    drive.world.stuck = True
    drive.world.tick(1)
    assert drive.world.active() == [] and drive.world.pods() == [] and drive.causes == ["stopped"]


def test_clearing_a_task_that_is_at_work_finds_the_same_work_at_once(drive: AirflowDrive) -> None:
    drive.world.steps, drive.world.stuck = [RUNS, drive.own["cleared"], WELL["waits"], WELL["succeeds"]], True
    began = drive.world.now()
    assert drive.drive() == 0
    assert drive.world.now() - began < 60 and drive.codes == ["Stopped", 0]
    assert len(drive.world.created) == 1 and drive.causes == ["done"]


def test_work_that_was_handed_over_and_never_taken_is_reaped(drive: AirflowDrive) -> None:
    drive.again = False
    drive.world.steps, drive.world.stuck = [RUNS, drive.own["cleared"]], True
    assert drive.drive() == 143 and drive.world.active()
    cluster = Cluster(drive.url)
    assert reap(cluster, NAMESPACE, drive.world.now() + 300) == []
    assert len(reap(cluster, NAMESPACE, drive.world.now() + 1200)) == 1 and drive.world.active() == []


def test_a_trigger_that_is_lost_for_good_leaves_nothing_that_runs(drive: AirflowDrive) -> None:
    deferred(drive)
    drive.world.stuck = True
    assert drive.world.active()
    assert len(reap(Cluster(drive.url), NAMESPACE, drive.world.now() + 1200)) == 1
    assert drive.world.active() == [] and drive.world.pods() == []
    drive.world.stuck = False
    assert drive.drive(retried=True) == 0 and drive.causes == ["node lost", "done"]


def test_where_airflow_does_not_say_what_became_of_a_task_its_work_goes_on(
    drive: AirflowDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: Trigger) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(Trigger, "states", nothing)
    drive.world.steps, drive.world.stuck = [RUNS, drive.own["marked failed"], *[WELL["waits"]] * 12], True
    drive.world.steps.append(WELL["succeeds"])
    assert drive.drive() == 0 and len(drive.world.created) == 1


def test_two_triggerers_at_once_do_no_harm(drive: AirflowDrive) -> None:
    trigger, _ = deferred(drive)
    one, other = drive.of_another_triggerer(trigger), drive.of_another_triggerer(trigger)
    for _ in range(3):
        assert (one._look(), other._look()) == (None, None)
        drive.world.seconds += 30
    drive.world.tick(1)
    drive.world.tick(1)
    assert one._look() is not None and other._look() is not None
    assert len(drive.world.created) == 1


def test_retries_are_the_drivers_and_airflows_do_not_multiply_them(tmp_path: Path) -> None:
    with airflow_drive_of(tmp_path, retries=2) as drive:
        drive.world.steps = [*[RUNS, OWN["fails"], *[WELL["waits"]] * 6] * 9]
        assert drive.drive() == 1 and len(drive.world.created) == 3
        drive._start(by_person=False)  # Airflow asks again, for a worker that died before it could tell
        with pytest.raises(AirflowFailException):
            drive.run(drive.context())
        assert len(drive.world.created) == 3
        check_end(drive, 1)


def test_a_right_that_is_missing_is_told_and_not_waited_for(drive: AirflowDrive) -> None:
    trigger, context = deferred(drive)
    drive.world.faults = [403] * 3
    event = drive.follow(trigger)
    assert "HTTP 403" in event["error"]
    with pytest.raises(AirflowException, match="HTTP 403"):
        drive.run(context, event)


def test_the_live_view_shows_why_a_deferred_stage_waits_and_that_it_is_tried_again(drive: AirflowDrive) -> None:
    view = AirflowRun.__new__(AirflowRun)
    view._store, view.run_id = drive.store, RUN
    job: Job = drive.job
    seen: list[Any] = []

    def look(world: SimulatedCluster) -> None:
        seen.append(view._state(job, {STAGE: {"state": "deferred"}}))

    drive.world.steps = [WELL["no node"], WELL["waits"], look, RUNS, WELL["waits"], look, OWN["fails"], look]
    assert view._state(job, {STAGE: {"state": "running"}}).word == RUNNING
    assert drive.drive() == 0
    waits, runs, again = seen
    assert (waits.word, runs.word, runs.note) == (RUNNING, RUNNING, "") and "0/3 nodes are available" in waits.note
    assert (again.word, again.attempt, again.pause_seconds) == (RETRYING, 1, 1.0)
