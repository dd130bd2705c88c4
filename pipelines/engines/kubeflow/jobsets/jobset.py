"""The task of a stage on several nodes: starts its JobSet, shows the logs of all nodes, and ends as it does.

python -m pipelines.engines.kubeflow.jobsets.jobset --store URI --run RUN --stage STAGE --pool JSON --cluster JSON ...

It runs on a small node. A cached or skipped stage starts nothing; a running JobSet is found again.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any, NoReturn

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error
from components.runtime.job.process import FAILED, REFUSED
from components.runtime.ledger.records import stage_key
from pipelines.engines.kubeflow.cluster import Cluster, ClusterUnavailable, Conflict
from pipelines.engines.kubeflow.executor import ExecutorInput
from pipelines.engines.kubeflow.jobsets.logs import Logs
from pipelines.engines.kubeflow.jobsets.manifest import LABEL, jobset_manifest, jobset_name
from pipelines.engines.kubeflow.jobsets.pods import why_failed
from pipelines.engines.kubeflow.jobsets.refusals import Refusals
from pipelines.engines.kubeflow.stage_run import StageRun, add_outputs, stage_parser
from pipelines.engines.kubeflow.tries import goes_on, used_up
from pipelines.engines.shared.attempt import STARTUP_SECONDS, Ended, ended
from pipelines.engines.shared.pod import SCHEDULE_SECONDS, PodSettings
from pipelines.recipe.pools import Pool

POLL_SECONDS = 5.0
AWAY_SECONDS = 600.0
"""How long Kubernetes may be unreachable; the nodes keep working meanwhile."""
MAX_ATTEMPTS = 1000


class Stopped(PosttrainError):
    """This task was told to stop."""

    exit_code = 143


class JobSet:
    """The JobSet of one attempt at a stage."""

    def __init__(
        self, run: StageRun, pool: Pool, settings: PodSettings, cluster: Cluster, *, poll_seconds: float = POLL_SECONDS
    ) -> None:
        assert run.job is not None
        self._run, self._job, self._pool, self._cluster = run, run.job, pool, cluster
        self._settings, self._pause = settings, poll_seconds
        self._namespace = settings.namespace
        self._before: dict[str, Any] | None = None
        self.name = ""

    def start(self) -> None:
        """Create the JobSet, or find the running one; ended ones are past attempts."""
        for number in range(MAX_ATTEMPTS):
            name = jobset_name(self._job, number)
            known = self._cluster.jobset(self._namespace, name)
            if known is not None and _condition(known) is None:
                print(f"JobSet {name} goes on", flush=True)
                self.name = name
                return
            if known is None and self._create(name):
                return
        raise InputError(f"stage {self._job.stage!r}: {MAX_ATTEMPTS} JobSets of this run have ended; delete some")

    def _create(self, name: str) -> bool:
        """Return whether the JobSet could be created; another attempt of this task may have been faster."""
        self._before = self._run.failure()
        try:
            self._cluster.create_jobset(jobset_manifest(self._job, self._pool, self._settings, name))
        except Conflict:
            return False
        print(f"JobSet {name} in {self._namespace}: {self._pool.nodes} nodes", flush=True)
        self.name = name
        return True

    def watch(self) -> Ended:
        """Return how the JobSet ended; shows the logs of its pods meanwhile."""
        logs = Logs(self._cluster, self._namespace)
        try:
            state, message = self._wait(logs)
            logs.finish()
            done = self._run.store.get(stage_key(self._run.run_id, self._run.stage)) is not None
            if state == "Completed" or (state == "Deleted" and done):  # by another attempt at this task that saw it end
                return ended(0, finished=done, failure=None, last_line=logs.last)
            failure = self._run.failure()
            if failure is not None and failure != self._before:
                return Ended(REFUSED if logs.refused else FAILED, failure["error"], retryable=not logs.refused)
            pods = self._cluster.pods(self._namespace, LABEL, self.name)
            return Ended(FAILED, why_failed(pods) or f"JobSet {self.name}: {message}", retryable=True, silent=True)
        finally:
            logs.close()

    def delete(self) -> None:
        """Delete the JobSet with its pods."""
        self._cluster.delete_jobset(self._namespace, self.name)

    def _wait(self, logs: Logs) -> tuple[str, str]:
        limit = self._job.timeout_seconds
        deadline = time.monotonic() + limit + STARTUP_SECONDS + SCHEDULE_SECONDS if limit else None
        away: float | None = None
        while True:
            try:
                known = self._cluster.jobset(self._namespace, self.name)
                if known is None:
                    return "Deleted", "somebody deleted it"
                for pod in self._cluster.pods(self._namespace, LABEL, self.name):
                    logs.follow(pod)
                if found := _condition(known):
                    return found
                away = None
            except ClusterUnavailable:
                away = away or time.monotonic()
                if time.monotonic() - away > AWAY_SECONDS:
                    raise
            if deadline is not None and time.monotonic() > deadline:
                self.delete()
                return "Failed", f"it had {limit:g} s to run and hours to start, and has not ended"
            time.sleep(self._pause)


def drive(jobset: JobSet, run: StageRun) -> int:
    """Start and watch a JobSet; return the exit code of the attempt. Whoever stops this stops the nodes."""
    jobset.start()
    try:
        end = jobset.watch()
    except (Stopped, KeyboardInterrupt):
        jobset.delete()
        raise
    if end.code == 0:
        jobset.delete()
        return 0
    if end.silent:
        run.record_death(end.error or "its JobSet failed")
    print_error(f"stage {run.stage!r}: {end.error}")
    return end.code if end.code > 0 else FAILED


def _condition(jobset: dict[str, Any]) -> tuple[str, str] | None:
    """Return (Completed or Failed, message) of a JobSet that has ended."""
    for condition in jobset.get("status", {}).get("conditions", []):
        if condition["type"] in ("Completed", "Failed") and condition["status"] == "True":
            return condition["type"], condition.get("message") or "no message"
    return None


def settings_of(text: str) -> PodSettings:
    """Return what the compiler wrote of the cluster."""
    told = json.loads(text)
    image = told.pop("image")
    return PodSettings(images={"cpu": image, "gpu": image}, **{key: _fixed(value) for key, value in told.items()})


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _stop(number: int, frame: Any) -> NoReturn:
    raise Stopped(f"stopped by {signal.Signals(number).name}; its nodes are freed")


def main(cluster: Cluster | None = None, *, poll_seconds: float = POLL_SECONDS) -> int:
    """Run one stage on several nodes; the exit code is that of a stage."""
    parser = stage_parser("Run a stage of a run on several nodes.")
    parser.add_argument("--pool", required=True, help="the pool, JSON")
    parser.add_argument("--cluster", required=True, help="image, namespace, account and names of secrets, JSON")
    add_outputs(parser)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    try:
        told = ExecutorInput.parse(arguments.executor_input)
        run = StageRun.find(arguments.store, arguments.run, arguments.stage)
        if not run.settled() and not used_up(run):
            refusals = Refusals(run)
            if message := refusals.standing():
                raise InputError(message)
            pool, settings = Pool.model_validate_json(arguments.pool), settings_of(arguments.cluster)
            jobset = JobSet(run, pool, settings, cluster or Cluster.inside(), poll_seconds=poll_seconds)
            if (code := drive(jobset, run)) and not goes_on(run, code):
                refusals.note(code)
                return code
        run.point(told, arguments.pointer)
    except PosttrainError as error:
        print_error(error)
        return REFUSED if isinstance(error, InputError) else error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
