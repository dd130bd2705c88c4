"""Follows a stage's work in Airflow's triggerer: renews its lease, shows its logs, says when its task has to act.

All that it must remember is in the store and on the cluster: a triggerer that starts later goes on where this one was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from components.contract.errors import InputError, PosttrainError
from pipelines.engines.driver.api import Cluster, ClusterUnavailable
from pipelines.engines.driver.lease import LeaseLost, stage_lease
from pipelines.engines.driver.observer import Observer, Seen
from pipelines.engines.driver.patience import AWAY_SECONDS, Clock, Patience
from pipelines.engines.driver.stage import DrivenStage

POLL_SECONDS = 10.0
ENDED = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""States of a task that does not run again by itself."""
_THREADS = ThreadPoolExecutor(16, thread_name_prefix="posttrain")
"""For requests to Kubernetes and the store: the triggerer's own threads are for all triggers."""
Answer = TypeVar("Answer")


class StageTrigger(BaseTrigger):
    """Fires when something has to be done for a stage on the cluster."""

    clock = Clock()

    def __init__(self, store: str, run_id: str, stage: str, namespace: str, holder: str) -> None:
        """`holder` is who holds the stage's lease: the task, in whatever process."""
        super().__init__()
        self.store, self.run_id, self.stage, self.namespace, self.holder = store, run_id, stage, namespace, holder
        self._lines: list[str] = []
        self._observer: Observer | None = None
        self._patience: Patience | None = None
        self._away: float | None = None
        self._one = Lock()
        """Held by what uses the observer: what a cancelled trigger began goes on in its thread for a moment."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class and arguments, as the triggerer finds them in Airflow's database."""
        names = ("store", "run_id", "stage", "namespace", "holder")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield what the task has to act upon."""
        while True:
            try:
                seen = await _in_thread(self._look)
            except PosttrainError as error:
                seen, told = None, self._failed(error)
                if told is not None:
                    yield TriggerEvent(told)
                    return
            self._show()
            if seen is not None:
                yield TriggerEvent(seen.to_json())
                return
            await self.pause(POLL_SECONDS)

    async def on_kill(self) -> None:
        """End the work of a task that a person has ended or deleted; that of one that was cleared goes on.

        Where Airflow does not say which it is, the work waits for another task, and for the reaper without one.
        """
        ended = await self._is_ended()
        if ended is not None:
            await _in_thread(lambda: self._give_back(delete=ended))
        self._show()

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def cluster(self) -> Cluster:
        """Return the cluster."""
        return Cluster.inside()

    def states(self) -> dict[str, Any]:
        """Return run -> task -> state, as Airflow has them now."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti: Any = self.task_instance
        found: dict[str, Any] = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id]
        )
        return found

    def _look(self) -> Seen | None:
        with self._one:
            observer = self._watch()
            assert self._patience is not None
            try:
                seen = observer.look()
            except ClusterUnavailable as error:
                self._patience.missed(error)
                return None
            self._patience.answered()
            self._away = None
            return seen

    def _watch(self) -> Observer:
        if self._observer is None:
            run, cluster = DrivenStage.find(self.store, self.run_id, self.stage), self.cluster()
            lease = stage_lease(cluster, self.namespace, (self.run_id, self.stage), self.holder, self.clock.now)
            self._observer = Observer(
                run, cluster, lease, self.namespace, self.clock, say=self._lines.append, live=False
            )
            self._patience = Patience(self.clock, self._observer.tell)
        return self._observer

    def _failed(self, error: PosttrainError) -> dict[str, Any] | None:
        """Return the event of an error; None for one that may pass, such as of a store that does not answer."""
        if isinstance(error, LeaseLost):  # reaped, or taken over: its task finds out
            return Seen().to_json()
        now = self.clock.now()
        if self._away is None:
            self._away = now
            self._lines.append(str(error))
        if isinstance(error, ClusterUnavailable | InputError) or now - self._away > AWAY_SECONDS:
            self._show()
            return {"error": str(error)}
        return None

    async def _is_ended(self) -> bool | None:
        """Return whether the task has ended or is gone, and will not run again; None if Airflow does not say."""
        try:
            found = await _in_thread(self.states)
        except Exception as error:  # whatever Airflow's own interface raises
            self.log.warning("Airflow does not say what became of the task: %s", error)
            return None
        states, name = found.get(self.task_instance.run_id, {}), self.task_instance.task_id
        return name not in states or states[name] in ENDED

    def _give_back(self, *, delete: bool) -> None:
        try:
            with self._one:
                self._free(self._watch(), delete=delete)
        except PosttrainError as error:
            self._lines.append(f"its nodes are freed later, when its lease is over: {error}")

    def _free(self, observer: Observer, *, delete: bool) -> None:
        if observer.hold():
            if delete:
                self._lines.append("its task was ended: its nodes are freed")
                observer.leave()
            else:
                observer.lease.hand_over()

    def _show(self) -> None:
        """Write lines to the task's log, from the trigger's own context."""
        lines, self._lines[:] = list(self._lines), []
        for line in lines:
            self.log.info("%s", line)


async def _in_thread(work: Callable[[], Answer]) -> Answer:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
