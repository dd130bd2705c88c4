"""Pods of stages from start to end, against an API that answers as Kubernetes does."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.models.trigger import Trigger as KeptTrigger
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from components.contract.job import Job
from components.runtime.ledger.records import failure_key, run_key, save_job, stage_entry, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.airflow.names import run_id_of
from pipelines.engines.airflow.tasks.pod_task import StagePod
from tests.pipelines.engines.airflow.test_pod import examples, operator
from tests.support.kubernetes_api import KubernetesApi, kubernetes_api


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    """A cluster without pods that this process's clients find, and a store in which the run has begun."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(tmp_path / "kubeconfig")}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))
    store = open_store(str(tmp_path / "store"))
    store.put(run_key(job().run_id), {"run_id": job().run_id})
    save_job(store, job())
    with kubernetes_api(tmp_path) as served:
        yield served


def job() -> Job:
    """Return the stage's job, as the run's first task puts it into the store."""
    dag_run = Attempt.dag_run
    return examples()["l4x1-spot"][0].model_copy(update={"run_id": run_id_of("nightly", dag_run), "after": []})


class Attempt:
    """One try of a task, as a worker makes it; `kept` is what Airflow keeps of the task between its tries."""

    dag_run = SimpleNamespace(
        dag_id="nightly", run_id="manual__1", run_after=datetime(2026, 11, 21, 12, tzinfo=UTC), conf={}
    )

    def __init__(self, kept: dict[str, Any], number: int = 1) -> None:
        self.task = self._parsed()
        instance = SimpleNamespace(
            dag_id="nightly",
            task_id=self.task.task_id,
            run_id="manual__1",
            map_index=-1,
            try_number=number,
            max_tries=self.task.retries,
            xcom_push=lambda key, value: None,
        )
        self.context = {
            "ti": instance,
            "run_id": "manual__1",
            "dag": self.task.dag,
            "dag_run": self.dag_run,
            "task": self.task,
            "task_state_store": SimpleNamespace(get=kept.get, set=kept.__setitem__),
            "outlet_events": {},
        }

    @staticmethod
    def _parsed() -> StagePod:
        _, pool, settings = examples()["l4x1-spot"]
        return operator(job(), pool, settings)

    def start(self) -> Any:
        """Run the task until it hands over to the triggerer; return the trigger."""
        with pytest.raises(TaskDeferred) as deferred:
            self.task.execute(self.context)
        assert deferred.value.method_name == "trigger_reentry"
        return deferred.value.trigger

    def resume(self, event: dict[str, Any]) -> dict[str, Any]:
        """Take the task up again on a worker that has not seen it yet."""
        self.task = self._parsed()
        return self.task.trigger_reentry(self.context, event)

    @property
    def store(self) -> Store:
        """Return the run's store."""
        return open_store(os.environ["POSTTRAIN_STORE"])

    def work(self, status: str = "done") -> None:
        """Write what the stage in the pod would have written."""
        entry = stage_entry(
            job(), status=status, cache="miss", started=0.0, ended=1.0, inputs={}, metrics={"loss": 0.5}
        )
        self.store.put(stage_key(job().run_id, job().stage), entry)

    def failure(self) -> str | None:
        """Return the failure that the ledger holds."""
        record = self.store.get(failure_key(job().run_id, job().stage))
        return record and record["error"]


def watch(trigger: Any) -> dict[str, Any]:
    """Return the event of a trigger, as the triggerer gets it."""

    async def first() -> dict[str, Any]:
        return (await anext(trigger.run())).payload

    return asyncio.run(first())


def test_a_pod_that_succeeds_leaves_its_log_and_is_deleted(
    api: KubernetesApi, capfd: pytest.CaptureFixture[str]
) -> None:
    attempt = Attempt({})
    trigger = attempt.start()
    (name,) = api.created
    api.end(name, 0, log="step 1 of 1\n")
    attempt.work()
    assert attempt.resume(watch(trigger))["metrics"] == {"loss": 0.5}
    assert api.deleted == [name]
    assert "[stage] logs: step 1 of 1" in capfd.readouterr().out


def test_a_restart_finds_its_pod_again(api: KubernetesApi) -> None:
    kept: dict[str, Any] = {}
    Attempt(kept).start()  # and its worker dies
    (name,) = api.created
    api.start(name)
    trigger = Attempt(kept, number=2).start()
    assert api.created == [name]
    assert trigger.pod_name == name
    api.end(name, 0)
    assert watch(trigger)["status"] == "success"


def of_another_triggerer(trigger: Any, *, hours: float) -> Any:
    """Return a trigger as a triggerer makes it that starts `hours` later, from what Airflow's database holds."""
    path, arguments = trigger.serialize()
    arguments["trigger_start_time"] -= timedelta(hours=hours)
    kept = KeptTrigger.encrypt_kwargs(arguments)
    return import_string(path)(**KeptTrigger._decrypt_kwargs(kept))


def test_a_triggerer_that_restarts_finds_the_pod_of_thirty_hours_again(api: KubernetesApi) -> None:
    attempt = Attempt({})
    trigger = attempt.start()
    (name,) = api.created
    api.start(name)

    async def until_the_triggerer_ends() -> None:
        watching = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.wait({watching}, timeout=0.5)
        assert not watching.done(), "a pod that works is waited for"
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    asyncio.run(until_the_triggerer_ends())
    assert (api.created, api.deleted) == ([name], []), "the pod works on without a triggerer"
    again = of_another_triggerer(trigger, hours=30)
    api.end(name, 0)
    attempt.work()
    event = watch(again)
    assert event["status"] == "success"
    assert attempt.resume(event)["metrics"] == {"loss": 0.5}, "by a worker that has not seen the task yet"
    assert (api.created, api.deleted) == ([name], [name])


def test_a_pod_that_ended_while_no_triggerer_and_no_scheduler_ran(api: KubernetesApi) -> None:
    kept: dict[str, Any] = {}
    trigger = Attempt(kept).start()
    (name,) = api.created
    api.end(name, 1, message="posttrain: stage 'rl': ValueError: no rows\n")
    event = watch(of_another_triggerer(trigger, hours=30))
    with pytest.raises(AirflowException, match=r"^stage 'rl': ValueError: no rows$"):
        Attempt(kept).resume(event)
    assert (api.created, api.deleted) == ([name], [])


def test_a_failed_pod_is_kept_and_its_retry_gets_a_new_one(api: KubernetesApi) -> None:
    kept: dict[str, Any] = {}
    attempt = Attempt(kept)
    trigger = attempt.start()
    (name,) = api.created
    api.end(name, 1, message="Traceback ...\nposttrain: stage 'rl': ValueError: no rows\n")
    with pytest.raises(AirflowException, match=r"^stage 'rl': ValueError: no rows$") as failed:
        attempt.resume(watch(trigger))
    assert not isinstance(failed.value, AirflowFailException)
    assert list(api.pods) == [name]
    Attempt(kept, number=2).start()
    assert len(api.created) == 2 and not api.deleted


def test_no_pod_for_what_is_settled(api: KubernetesApi) -> None:
    attempt = Attempt({})
    attempt.work("skipped")
    with pytest.raises(AirflowSkipException):
        attempt.task.execute(attempt.context)
    assert not api.created


@pytest.mark.parametrize(
    ("code", "ending", "error", "line"),
    [
        (2, {"message": "posttrain: gate pass_rate >= 0.5 does not hold"}, AirflowFailException, "^gate pass_rate >="),
        (137, {"reason": "OOMKilled"}, AirflowException, r"its pool gives \(OOMKilled\); take a larger pool$"),
        (137, {"pod": "DeadlineExceeded"}, AirflowException, "DeadlineExceeded: as the test wants it$"),
        (139, {}, AirflowException, "^its process was killed by SIGSEGV$"),
    ],
    ids=["refused", "memory", "time", "crash"],
)
def test_why_a_pod_failed(
    api: KubernetesApi, code: int, ending: dict[str, str], error: type[Exception], line: str
) -> None:
    attempt = Attempt({})
    trigger = attempt.start()
    api.end(api.created[0], code, **ending)
    with pytest.raises(error, match=line) as failed:
        attempt.resume(watch(trigger))
    assert type(failed.value) is error
    assert attempt.failure() == (None if code == 2 else str(failed.value))  # the stage itself records what it can


@pytest.mark.parametrize(("reason", "status"), [("ErrImagePull", "error"), ("ContainerCreating", "timeout")])
def test_a_pod_that_does_not_start_is_deleted_before_its_retry(api: KubernetesApi, reason: str, status: str) -> None:
    attempt = Attempt({})
    trigger = attempt.start()
    (name,) = api.created
    api.hold(name, reason)
    trigger.startup_timeout, trigger.startup_check_interval = 0.5, 0.1
    event = watch(trigger)
    assert event["status"] == status
    with pytest.raises(AirflowException, match=rf"did not start: {reason}: as the test wants it$"):
        attempt.resume(event)
    assert api.deleted == [name]
