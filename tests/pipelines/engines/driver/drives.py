"""A stage that is driven on a simulated cluster, by drivers that are killed, stopped and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from components.contract.job import Job, Retry
from components.runtime.ledger.records import failure_key, run_key, save_job, stage_entry, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.driver.api import Cluster, ClusterUnavailable
from pipelines.engines.driver.driver import Driver, Stopped
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.record import Record, read
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.driver.waiting import waiting
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool
from tests.support.api_server.cluster import SimulatedCluster, Step
from tests.support.api_server.server import served

RUN, STAGE = "nightly-20261121-120000-ab12", "train"
IMAGE = f"registry.example/posttrain-gpu@sha256:{'2' * 64}"
SETTINGS = PodSettings(images={"cpu": IMAGE, "gpu": IMAGE})
POOLS = {
    "Job": Pool(cpus=7, memory_gib=27, gpus=1, gpu_type="l4", runs_on="pod"),
    "JobSet": Pool(cpus=96, memory_gib=1600, gpus=8, gpu_type="h100", nodes=2, trainer="deepspeed", runs_on="pod"),
}
POOLS["TrainJob"] = POOLS["JobSet"].model_copy(update={"training_runtime": "posttrain-torch"})


class Killed(BaseException):
    """The driver's process is gone: nothing of it runs any more."""


@dataclass
class Drive:
    """One stage, its cluster, and the end of its drivers."""

    world: SimulatedCluster
    store: Store
    url: str
    pool: Pool
    job: Job
    codes: list[int | str] = field(default_factory=list)
    """How each driver ended: an exit code, or what befell it."""
    ends: list[BaseException] = field(default_factory=list)
    """What befalls the driver at its next request."""
    own: dict[str, Step] = field(default_factory=dict)
    """What else can befall a stage with this engine."""

    def drive(self, *, retried: bool = False, times: int = 40) -> int:
        """Start drivers until one ends by itself; return its exit code."""
        for _ in range(times):
            try:
                code = self.driver().drive(retried=retried)
            except (Killed, Stopped, ClusterUnavailable) as error:
                self.codes.append(type(error).__name__)
                self.world.tick(1)
                retried = True
                continue
            self.codes.append(code)
            return code
        raise AssertionError(f"no end: {self.codes}")

    def driver(self) -> Driver:
        """Return a driver in a process of its own, so to say."""
        run = DrivenStage.find(self.store.uri, RUN, STAGE)
        clock = Clock(self.world.now, self.world.sleep)
        return Driver(run, self.pool, SETTINGS, _Mortal(self.url, None, self.ends), clock=clock)

    def fails_with(self, message: str, cause: str = "raised") -> None:
        """Record what the stage's own process records when it fails."""
        record = {"run_id": RUN, "stage": STAGE, "fingerprint": "0" * 64, "error": message}
        record |= {"cause": cause, "time": self.world.now()}
        self.store.put(failure_key(RUN, STAGE), record, overwrite=True)

    @property
    def record(self) -> Record:
        """Return what the drivers wrote down."""
        return read(self.store, RUN, STAGE)

    @property
    def waits(self) -> str:
        """Return what the stage waits for, as the live view shows it."""
        return waiting(self.store, RUN, STAGE).text

    @property
    def causes(self) -> list[str]:
        """Return how the tries ended."""
        return [str(one.cause) for one in self.record.tries]

    @property
    def error(self) -> str:
        """Return the failure that the ledger has."""
        found = self.store.get(failure_key(RUN, STAGE))
        return found["error"] if found else ""

    def entry(self) -> dict[str, Any] | None:
        """Return the ledger's entry of the stage."""
        return self.store.get(stage_key(RUN, STAGE))


@dataclass(frozen=True)
class _Mortal(Cluster):
    """A client whose process ends when the test wants it, before a request or after it."""

    ends: list[BaseException] = field(default_factory=list)

    def _open(self, method: str, path: str, body: Any, *, timeout: float | None) -> Any:
        if self.ends and not path.endswith("/log") and "/log?" not in path:
            end = self.ends.pop(0)
            if getattr(end, "after", False):
                with suppress(HTTPError):
                    super()._open(method, path, body, timeout=timeout).close()
            raise end
        return super()._open(method, path, body, timeout=timeout)


@contextmanager
def drive_of(
    folder: Path, kind: str = "Job", *, retries: int = 2, on_failure: str = "stop", spot: bool = False, **more: Any
) -> Iterator[Drive]:
    """Yield a stage of a run that has begun, on a pool that makes it a work of a kind."""
    pool = POOLS[kind].model_copy(update={"spot": spot})
    store = open_store(str(folder / "store"))
    fixed = {"recipe": "nightly", "run_id": RUN, "store": store.uri, "params": {"layers": 1}, "inputs": {}, "seed": 0}
    retry = Retry(retries=retries, backoff_seconds=1.0, max_backoff_seconds=4.0)
    job = Job(
        **{**fixed, **more},
        stage=STAGE,
        component="pretrain",
        resources=pool.resources("gpus"),
        retry=retry,
        on_failure=on_failure,
    )
    store.put(run_key(RUN), {"run_id": RUN})
    save_job(store, job)
    world = SimulatedCluster(lambda: store.put(stage_key(RUN, STAGE), entry_of(job)))
    with served(world) as url:
        yield Drive(world, store, url, pool, job)


def entry_of(job: Job) -> dict[str, Any]:
    """Return what the launcher writes when a stage is done."""
    return stage_entry(job, status="done", cache="miss", started=0.0, ended=1.0, inputs={}, fingerprint="0" * 64)


def kills(drive: Drive, end: Callable[[], BaseException], *, after: bool = False) -> Callable[[SimulatedCluster], None]:
    """Return the step that ends the driver at its next request, or right after it."""

    def step(world: SimulatedCluster) -> None:
        error = end()
        error.after = after  # type: ignore[attr-defined]
        drive.ends.append(error)

    return step
