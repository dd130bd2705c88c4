"""A stage that Airflow drives on a simulated cluster: tasks and triggers as Airflow runs them, each in a process.

A worker or a triggerer that is killed is followed by another one, which has only what Airflow's database holds. A
person who ends the task is followed by one who clears it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.models.trigger import Trigger as KeptTrigger
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from pipelines.engines.airflow.tasks import stage_run
from pipelines.engines.airflow.tasks.pod_task import StagePod
from pipelines.engines.airflow.tasks.stage_run import StageRun
from pipelines.engines.airflow.tasks.stage_trigger import StageTrigger
from pipelines.engines.driver.driver import Driver, Stopped
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.stage import DrivenStage
from tests.pipelines.engines.driver import drives
from tests.pipelines.engines.driver.drives import RUN, SETTINGS, STAGE, Drive, Killed, _Mortal
from tests.support.api_server.cluster import SimulatedCluster, Step

ACTS = {"marked failed": "failed", "marked as success": "success", "cleared": None, "deleted": "deleted"}
OWN_RETRIES = 40
"""Airflow's own, for workers that the tests kill."""


class Acts(BaseException):
    """A person acts upon the task while it is deferred."""


class Task(StagePod):
    """The operator, on the test's cluster."""

    drive: AirflowDrive

    def _driver(self, run: StageRun) -> Driver:
        stage = DrivenStage(run.store, run.run_id, self.stage, run.job)
        return Driver(stage, self.drive.pool, SETTINGS, self.drive.client, clock=self.drive.clock, holder=run.holder)

    def _trigger(self, run: StageRun) -> Any:
        return Trigger(run.store.uri, run.run_id, self.stage, SETTINGS.namespace, run.holder)


class Trigger(StageTrigger):
    """The trigger, on the test's cluster; its pauses are the test's time."""

    drive: AirflowDrive

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        """Return the test's time."""
        return self.drive.clock

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.drive.world.sleep(seconds)

    def cluster(self) -> Any:
        """Return the test's cluster."""
        return self.drive.client

    def states(self) -> dict[str, Any]:
        """Return what a person made of the task."""
        return {} if self.drive.state == "deleted" else {"manual__1": {STAGE: self.drive.state}}


@dataclass
class AirflowDrive(Drive):
    """One stage, its cluster, and the ends of workers and triggerers."""

    state: str | None = "failed"
    """What a person who acts makes of the task; None is cleared, "deleted" is gone with its run."""
    starts: int = 0
    allowed: int = 0
    pushed: dict[str, Any] = field(default_factory=dict)
    ids: Iterator[int] = field(default_factory=itertools.count)
    again: bool = True
    """Whether a person clears a task that another one has ended."""

    def __post_init__(self) -> None:
        self.own = {name: self.acts(state) for name, state in ACTS.items()}

    def acts(self, state: str | None) -> Step:
        """Return the step in which a person acts upon the task, at the next request of its trigger."""

        def step(world: SimulatedCluster) -> None:
            self.state = state
            self.ends.append(Stopped("by a person"))

        return step

    def drive(self, *, retried: bool = False, times: int = 40) -> int:
        """Run the task until it has ended; return the exit code of its stage."""
        self._start(by_person=not retried)
        event: dict[str, Any] | None = None
        context = self.context()
        for _ in range(10 * times):
            try:
                self.run(context, event)
            except TaskDeferred as deferred:
                assert deferred.method_name == "resume"
                try:
                    event = self.follow(deferred.trigger)
                    continue
                except Acts:
                    self.codes.append("Stopped")
                    if not self.again:
                        return 143
                    self._start(by_person=True)
            except (Killed, Stopped, AirflowException) as error:
                if isinstance(error, AirflowSkipException | AirflowFailException):
                    return self._ended(error)
                self.codes.append(type(error).__name__)
                self.world.tick(5)
                self._start(by_person=False)
            else:
                return self._ended(None)
            event, context = None, self.context()
        raise AssertionError(f"no end: {self.codes}")

    def run(self, context: Any, event: dict[str, Any] | None = None) -> Any:
        """Run the task in a worker of its own, so to say."""
        with DAG("nightly", schedule=None):
            task = Task(task_id=STAGE, recipe="nightly", stage=STAGE, retries=OWN_RETRIES)
        context["task"] = task
        return task.execute(context) if event is None else task.resume(context, event)

    def follow(self, trigger: Any) -> dict[str, Any]:
        """Return the event of a trigger, which is made anew in every triggerer."""
        for _ in range(400):
            one = self.of_another_triggerer(trigger)
            try:
                return asyncio.run(self._until_it_fires(one))
            except Killed:
                self.codes.append("Killed")
                self.world.tick(1)
        raise AssertionError(f"no event: {self.codes}")

    async def _until_it_fires(self, one: Any) -> dict[str, Any]:
        try:
            return (await anext(one.run())).payload
        except Acts:
            await one.on_kill()
            raise

    def of_another_triggerer(self, trigger: Any) -> Any:
        """Return a trigger as a triggerer makes it from what Airflow's database holds."""
        path, arguments = trigger.serialize()
        kept = KeptTrigger.encrypt_kwargs(arguments)
        one = import_string(path)(**KeptTrigger._decrypt_kwargs(kept))
        one.task_instance = SimpleNamespace(dag_id="nightly", task_id=STAGE, run_id="manual__1", map_index=-1)
        return one

    def context(self) -> Any:
        """Return the context of a new try."""
        instance = SimpleNamespace(
            id=f"ti-{next(self.ids)}",
            try_number=self.starts,
            max_tries=self.allowed,
            xcom_push=self.pushed.__setitem__,
        )
        return {"ti": instance, "dag_run": SimpleNamespace(run_id="manual__1"), "outlet_events": {}}

    @property
    def client(self) -> Any:
        """Return the client of a process that may end."""
        return _Airflows(self.url, None, self.ends)

    @property
    def clock(self) -> Clock:
        """Return the cluster's time."""
        return Clock(self.world.now, self.world.sleep)

    def _start(self, *, by_person: bool) -> None:
        self.starts += 1
        if by_person:
            self.allowed = self.starts - 1 + OWN_RETRIES

    def _ended(self, error: BaseException | None) -> int:
        code = self.record.final
        if code is None:
            assert error is None, "a stage that needed no driver"
            code = 0
        assert isinstance(error, AirflowFailException) == (code != 0)
        self.codes.append(code)
        return code


class _Airflows(_Mortal):
    """A client of a worker or a triggerer; who is stopped by a person is told by Airflow."""

    def _open(self, *arguments: Any, **more: Any) -> Any:
        try:
            return super()._open(*arguments, **more)
        except Stopped as stopped:
            raise Acts from stopped


@contextmanager
def airflow_drive_of(folder: Path, *arguments: Any, **more: Any) -> Iterator[AirflowDrive]:
    """Yield what `drive_of` yields, driven by Airflow."""
    with drives.drive_of(folder, *arguments, **more) as drive, pytest.MonkeyPatch.context() as patch:
        mine = AirflowDrive(drive.world, drive.store, drive.url, drive.pool, drive.job)
        patch.setenv("POSTTRAIN_STORE", drive.store.uri)
        patch.setattr(stage_run, "run_id_of", lambda recipe, dag_run: RUN)
        patch.setattr(Task, "drive", mine, raising=False)
        patch.setattr(Trigger, "drive", mine, raising=False)
        yield mine
