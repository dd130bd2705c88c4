"""A run of one stage on the simulated cluster, driven by the real driver: it takes the place of quickstart.

Driver and step take turns: the driver asks the API server only while the step sleeps.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest

from components.contract.job import Job, Retry
from components.runtime.ledger.records import end_key, run_key, save_job, stage_key
from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.spool import Spool, spooled_keys
from components.runtime.store import Store, open_store
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.driver import Driver, Stopped
from pipelines.engines.driver.names import POD
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.driver.waiting import waiting
from tests.cluster.runner.kubectl_double import KubectlDouble
from tests.cluster.session import KUBEFLOW, Session
from tests.pipelines.engines.driver.drives import POOLS, SETTINGS, Killed, entry_of
from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster
from tests.support.api_server.server import served

RUN, STAGE, POOL = "quickstart-20261123-120000-ab12", "train", POOLS["Job"]
MLFLOW = "http://mlflow.posttrain.svc.cluster.local:5000"
SEED = 7
DRIVER_POD = "quickstart-20261123-120000-xk2lq-system-container-impl-1234567890"
"""The driver's pod: a name as long as Kubeflow gives, of which a host name keeps 63 characters."""
assert len(DRIVER_POD) > 63


class Turns:
    """Lets the driver do one thing at a time."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.left, self.waits, self.over = 0, False, True
        self.end: BaseException | None = None
        """What befalls the driver at its next request."""

    def take(self) -> None:
        """Wait for a turn, as the driver."""
        with self.changed:
            self.waits = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.left or self.end)
            self.waits = False
            if self.end:
                end, self.end = self.end, None
                raise end
            self.left -= 1

    def give(self, turns: int = 1) -> None:
        """Let the driver take turns, and wait until it has."""
        with self.changed:
            if self.over:
                return
            self.left += turns
            self.changed.notify_all()
            assert self.changed.wait_for(self.idle, 30), "the driver hangs"

    def idle(self) -> bool:
        """Return whether the driver waits for a turn, or has ended."""
        return self.over or (self.waits and not self.left and not self.end)

    def strike(self, end: BaseException) -> None:
        """Let something befall the driver, and wait until it has."""
        with self.changed:
            if not self.over:
                self.end = end
                self.changed.notify_all()
                assert self.changed.wait_for(self.idle, 30), "the driver hangs"


@dataclass(frozen=True)
class Patient(Cluster):
    """The driver's client, which waits for its turn before each request."""

    turns: Turns | None = None

    def _open(self, method: str, path: str, body: Any, *, timeout: float | None) -> Any:
        if "/log?" not in path:
            assert self.turns is not None
            self.turns.take()
        return super()._open(method, path, body, timeout=timeout)


@dataclass
class StageRun:
    """The run, as our command follows it; Kubeflow starts a driver again that was killed."""

    store: Store
    world: SimulatedCluster
    url: str
    deliver: bool = True
    """Whether lineage arrives when the run ends."""
    again: bool = True
    """Whether Kubeflow starts another driver in the place of one that was killed."""
    at_end: Callable[[], None] = lambda: None
    """What else happens in the cluster when the driver has ended."""
    silent: bool = False
    """Whether the live view shows no reasons."""
    deaf: bool = False
    """Whether a driver that is stopped leaves its work as it is."""
    turns: Turns = field(default_factory=Turns)
    ended: int | None = None
    threads: list[Thread] = field(default_factory=list)

    def begin(self) -> StageRun:
        """Start a driver."""
        self.turns, self.ended = Turns(), None
        self.turns.over = False
        pod = {"metadata": {"name": DRIVER_POD, "namespace": KUBEFLOW}, "spec": {}, "status": {}}
        if ("pods", KUBEFLOW, DRIVER_POD) not in self.world.objects.kept:
            self.world.objects.create("pods", pod)
        self.threads.append(Thread(target=self._drive, daemon=True))
        self.threads[-1].start()
        with self.turns.changed:
            assert self.turns.changed.wait_for(self.turns.idle, 30)
        return self

    def _drive(self) -> None:
        run = DrivenStage.find(self.store.uri, RUN, STAGE)
        client = Patient(self.url, None, self.turns)
        code, status = None, ""
        while code is None:
            try:
                clock = Clock(self.world.now, self.world.sleep)
                code = Driver(run, POOL, SETTINGS, client, clock=clock).drive(retried=bool(status))
                status = "failed" if code else "succeeded"
            except Stopped as stopped:
                code, status = stopped.exit_code, "stopped"
            except Killed:
                status, code = "failed", None if self.again else 1
        self.at_end()
        self.store.put(end_key(RUN), {"status": status, "ended": "2026-11-23T12:00:00.000+00:00"}, overwrite=True)
        if self.deliver:
            deliver_all(self.store)
        with self.turns.changed:
            self.ended, self.turns.over = code, True
            self.turns.changed.notify_all()

    def code(self) -> int | None:
        """Return the driver's exit code; None while it goes on."""
        return self.ended

    def said(self) -> str:
        """Return why the stage waits, as the live view does."""
        return "" if self.silent else waiting(self.store, RUN, STAGE).text

    def stop(self) -> None:
        """Stop the driver as Kubeflow does when a run is terminated."""
        self.again = self.again and not self.deaf
        self.turns.strike(Killed() if self.deaf else Stopped("stopped by SIGTERM"))

    def stop_soon(self) -> None:
        """Let the driver be gone at its next request."""
        self.turns.end = Killed()

    def leave(self) -> None:
        """Let the driver end, whatever it does."""
        self.again = False
        self.turns.strike(Killed())
        for thread in self.threads:
            thread.join(30)


def deliver_all(store: Store) -> None:
    """Note that MLflow has all events of the run."""
    cursor = Cursor.load(store, RUN, MLFLOW)
    cursor.delivered = set(spooled_keys(store, RUN))
    cursor.save()


@contextmanager
def session_of(
    folder: Path, prepare: Callable[[StageRun], None] = lambda run: None
) -> Iterator[tuple[Session, StageRun]]:
    """Yield the session of a simulated cluster, and the run that its steps begin; `prepare` makes it misbehave."""
    store = open_store(str(folder / "store"))
    fixed = {
        "recipe": "quickstart",
        "run_id": RUN,
        "store": store.uri,
        "params": {"layers": 1},
        "inputs": {},
        "seed": 0,
    }
    retry = Retry(retries=2, backoff_seconds=1.0, max_backoff_seconds=4.0)
    job = Job(**fixed, stage=STAGE, component="pretrain", resources=POOL.resources("gpus"), retry=retry)
    entry = {"recipe": "quickstart", "seed": SEED, "started": "2026-11-23T12:00:00.000+00:00"}
    store.put(run_key(RUN), {**entry, "run_id": RUN, "stages": [{"name": STAGE}]})
    save_job(store, job)
    Spool(store, RUN).stage_failed(STAGE, None, "an event that waits", at=0.0)
    world = SimulatedCluster(lambda: store.put(stage_key(RUN, STAGE), entry_of(job)))
    with served(world) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv(POD, DRIVER_POD)
        patch.setattr(socket, "gethostname", lambda: DRIVER_POD[:63])
        run = StageRun(store, world, url)
        prepare(run)

        def sleep(seconds: float) -> None:
            run.turns.give()
            if run.turns.over:
                world.tick(seconds)

        environ = {"POSTTRAIN_KUBEFLOW_URL": "http://kubeflow", "POSTTRAIN_IMAGE_CPU": SETTINGS.images["cpu"]}
        environ |= {"POSTTRAIN_STORE": store.uri, "MLFLOW_TRACKING_URI": MLFLOW}
        kubectl = KubectlDouble("kind-test", world, lambda: run.turns.strike(Killed()))
        seen = Session(kubectl, Cluster(url), folder / "out", environ, NAMESPACE, lambda *words: run.begin())
        seen.sleep, seen.now = sleep, world.now
        (folder / "out").mkdir()
        (folder / "out" / "seeds.json").write_text(json.dumps(dict.fromkeys(NAMES, SEED)))
        try:
            yield seen, run
        finally:
            run.leave()


NAMES = ("kubeflow", "pods", "driver", "drain", "quota", "delete", "token")
