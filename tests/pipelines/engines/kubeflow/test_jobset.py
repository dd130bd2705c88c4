"""The life of a stage on several nodes, against an API that answers as Kubernetes does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.ledger.records import failure_key, run_key, save_job, stage_entry, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.kubeflow.cluster import Cluster
from pipelines.engines.kubeflow.jobsets import jobset
from pipelines.engines.kubeflow.jobsets.jobset import JobSet, Stopped, drive, settings_of
from pipelines.engines.kubeflow.stage_run import StageRun
from tests.pipelines.engines.kubeflow.examples import POOLS
from tests.pipelines.engines.kubeflow.nodes import RUN, driver_arguments, job, pool
from tests.support.kubernetes_api import KubernetesApi, kubernetes_api


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesApi]:
    """A cluster without pods."""
    with kubernetes_api(tmp_path) as served:
        yield served


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which the run has begun."""
    found = open_store(str(tmp_path / "store"))
    found.put(run_key(RUN), {"run_id": RUN})
    save_job(found, job(found.uri))
    return found


class Attempt:
    """One attempt at the stage's task, in a thread, as a pod of Kubeflow makes it."""

    def __init__(self, api: KubernetesApi, store: Store) -> None:
        self.api, self.store, self.code, self.error = api, store, None, None
        self.run = StageRun.find(store.uri, RUN, "base")
        settings = settings_of(driver_arguments()["--cluster"])
        self.jobset = JobSet(self.run, pool(), settings, Cluster(api.url), poll_seconds=0.02)
        self._thread = Thread(target=self._drive, daemon=True)
        self._thread.start()

    def _drive(self) -> None:
        try:
            self.code = drive(self.jobset, self.run)
        except Exception as error:
            self.error = error

    def pods(self) -> list[str]:
        """Return the names of its pods, once they are there."""
        while not any(pod.startswith(f"{self.jobset.name}-") for pod in list(self.api.pods)) or not self.jobset.name:
            self._thread.join(0.01)
            assert self._thread.is_alive(), self.error
        return sorted(pod for pod in self.api.pods if pod.startswith(f"{self.jobset.name}-"))

    def end(self, condition: str, *codes: int, **how: Any) -> int | None:
        """End its pods and its JobSet; return the exit code of the task."""
        for pod, code in zip(self.pods(), codes, strict=True):
            self.api.end(pod, code, **how)
        self.api.finish(self.jobset.name, condition, "as the test wants it")
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.code

    def work(self) -> None:
        """Write what the first rank would have written."""
        entry = stage_entry(job(self.store.uri), status="done", cache="miss", started=0.0, ended=1.0, inputs={})
        self.store.put(stage_key(RUN, "base"), entry)


def test_a_stage_that_succeeds_leaves_the_logs_of_its_nodes_and_frees_them(
    api: KubernetesApi, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    attempt = Attempt(api, store)
    first, second = attempt.pods()
    assert first.endswith("-node-0-0-x0") and len(api.created) == 1
    api.start(first)
    attempt.work()
    assert attempt.end("Completed", 0, 0, log="step 1 of 2\nstep 2 of 2\n") == 0
    assert api.deleted == [attempt.jobset.name] and not api.pods
    out = capfd.readouterr().out
    assert [f"[node {node}] step {step} of 2" in out for node in (0, 1) for step in (1, 2)] == [True] * 4
    assert out.count("step 1 of 2") == 2
    assert second


def test_a_task_that_was_killed_finds_its_nodes_again(api: KubernetesApi, store: Store) -> None:
    first = Attempt(api, store)
    first.pods()
    second = Attempt(api, store)
    second.pods()
    assert second.jobset.name == first.jobset.name and len(api.created) == 1
    second.work()
    assert second.end("Completed", 0, 0) == 0
    first._thread.join(30)
    assert first.code == 0  # whichever of them saw the end first has deleted the JobSet


def test_one_that_is_deleted_when_its_stage_is_done_has_succeeded(api: KubernetesApi, store: Store) -> None:
    attempt = Attempt(api, store)
    attempt.pods()
    attempt.work()
    api.answer("DELETE", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/posttrain/jobsets/{attempt.jobset.name}", {}, None)
    attempt._thread.join(30)
    assert attempt.code == 0


def test_a_failed_attempt_is_kept_and_the_next_one_gets_nodes_of_its_own(
    api: KubernetesApi, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    first = Attempt(api, store)
    assert first.end("Failed", 1, 1, message="Traceback\nRuntimeError: NCCL timeout\n") == 1
    record = store.get(failure_key(RUN, "base"))
    assert record and "last line: RuntimeError: NCCL timeout" in record["error"]
    assert not api.deleted
    second = Attempt(api, store)
    second.pods()
    assert second.jobset.name != first.jobset.name
    second.work()
    assert second.end("Completed", 0, 0) == 0
    assert api.deleted == [second.jobset.name]
    assert "posttrain: stage 'base': pod" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("codes", "how", "said"),
    [
        ((137, 1), {"reason": "OOMKilled"}, "needed more memory than its pool gives (OOMKilled)"),
        ((137, 1), {"pod": "Evicted"}, "Evicted: as the test wants it"),
        ((139, 139), {}, "was killed by SIGSEGV"),
        ((0, 0), {}, "as the test wants it"),
    ],
    ids=["memory", "evicted", "crash", "no-pod-says"],
)
def test_why_nodes_failed(
    api: KubernetesApi, store: Store, codes: tuple[int, int], how: dict[str, str], said: str
) -> None:
    assert Attempt(api, store).end("Failed", *codes, **how) == 1
    record = store.get(failure_key(RUN, "base"))
    assert record and said in record["error"]


def test_nodes_that_were_never_found_are_the_reason(api: KubernetesApi, store: Store) -> None:
    attempt = Attempt(api, store)
    for pod in attempt.pods():
        api.hold(pod, "ErrImagePull")
    api.finish(attempt.jobset.name, "Failed")
    attempt._thread.join(30)
    record = store.get(failure_key(RUN, "base"))
    assert record and "did not start: ErrImagePull" in record["error"]


def test_torchrun_hides_a_refusal_and_it_is_found(api: KubernetesApi, store: Store) -> None:
    attempt = Attempt(api, store)
    attempt.pods()
    attempt.run.record_death("gate pass_rate >= 0.5 does not hold")
    log = "Root Cause (first observed failure):\n  rank      : 0\n  exitcode  : 2 (pid: 17)\n"
    assert attempt.end("Failed", 1, 1, log=log) == 2


def test_an_api_that_is_away_for_a_moment_ends_nothing(api: KubernetesApi, store: Store) -> None:
    attempt = Attempt(api, store)
    attempt.pods()
    api.broken += [503, 500, 503]
    attempt.work()
    assert attempt.end("Completed", 0, 0) == 0


def test_one_that_somebody_deleted_has_failed(api: KubernetesApi, store: Store) -> None:
    attempt = Attempt(api, store)
    attempt.pods()
    api.answer("DELETE", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/posttrain/jobsets/{attempt.jobset.name}", {}, None)
    attempt._thread.join(30)
    assert attempt.code == 1
    assert "somebody deleted it" in store.get(failure_key(RUN, "base"))["error"]


def test_who_stops_the_task_stops_the_nodes(api: KubernetesApi, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = StageRun.find(store.uri, RUN, "base")
    one = JobSet(run, pool(), settings_of(driver_arguments()["--cluster"]), Cluster(api.url), poll_seconds=0.02)

    def stop(seconds: float) -> None:
        raise Stopped("stopped by SIGTERM")

    monkeypatch.setattr(jobset.time, "sleep", stop)  # where the signal finds the task
    with pytest.raises(Stopped):
        drive(one, run)
    assert api.created == api.deleted == [one.name]


def test_nothing_is_started_for_what_is_done(
    api: KubernetesApi, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = stage_entry(job(store.uri), status="skipped", cache="none", started=0.0, ended=1.0, inputs={}, error="why")
    store.put(stage_key(RUN, "base"), entry)
    options = driver_arguments()
    told = json.dumps({"outputs": {"artifacts": {"model": {"artifacts": [{"name": "model"}]}}, "outputFile": "x/y"}})
    command = ["--store", store.uri, "--run", RUN, "--stage", "base", "--executor-input", told]
    command += ["--pool", options["--pool"], "--cluster", options["--cluster"], "--pointer", "model", "a/model"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["jobset", *command])
    assert jobset.main(Cluster(api.url)) == 0
    assert not api.created
    assert json.loads(Path("a/model").read_text())["skipped"] == "why"
    assert json.loads(Path("x/y").read_text())["artifacts"]["model"]["artifacts"][0]["metadata"]["skipped"] == "why"


def test_outside_of_a_pod_it_says_so() -> None:
    with pytest.raises(InputError, match="this is not a pod with a service account"):
        Cluster.inside({})
