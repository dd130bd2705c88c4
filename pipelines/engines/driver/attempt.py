"""One try at a stage on a cluster: its work is created or found again, followed to its end, and removed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.engines.driver.api import EVENTS, PODS, Cluster, ClusterUnavailable, Conflict, Gone, Missing
from pipelines.engines.driver.causes import DISRUPTIONS, Cause, Death, by_message, pod_death, why_failed
from pipelines.engines.driver.kinds import JOB, Kind, State
from pipelines.engines.driver.lease import Lease
from pipelines.engines.driver.logs import Logs
from pipelines.engines.driver.pending import Pending, why_pending
from pipelines.engines.driver.stage import DrivenStage, refuses
from pipelines.engines.shared.pod import SCHEDULE_SECONDS

WATCH_SECONDS = 10
AWAY_SECONDS = 3600.0
"""How long Kubernetes may be unreachable; the nodes keep working meanwhile."""
AGAIN_SECONDS = 5.0
LIMITS = {Cause.NO_NODE: float(SCHEDULE_SECONDS), Cause.IMAGE: 900.0, Cause.CONFIGURATION: 900.0}
"""How long a work may wait for what it lacks; a queue takes as long as it takes."""


@dataclass(frozen=True)
class Clock:
    """The time, and how to let it pass."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Outcome:
    """How a try ended."""

    cause: Cause
    error: str = ""
    silent: bool = False
    """Whether the stage could not record its failure itself."""


class Attempt:
    """The work of one try at a stage."""

    def __init__(
        self,
        run: DrivenStage,
        cluster: Cluster,
        lease: Lease,
        kind: Kind,
        place: tuple[str, str],
        *,
        pods: int,
        began: float,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        """`place` is namespace and name; `began` is when the try did; `tell` gets why nothing runs, "" once it does."""
        self._run, self._cluster, self._lease, self._kind, self._clock = run, cluster, lease, kind, clock
        self._namespace, self.name = place
        self._wanted, self._tell = pods, tell
        self._began = began
        self._work: dict[str, Any] | None = None
        self._version = ""
        self._deaths: dict[str, Death] = {}
        self._waiting: tuple[Cause, float] | None = None
        self._away: float | None = None

    def find(self) -> bool:
        """Return whether the work is there, in whatever state."""
        self._look_up()
        return self._work is not None

    def create(self, manifest: dict[str, Any]) -> Outcome | None:
        """Create the work, or find what an earlier driver created; return the end of a try that is refused."""
        try:
            self._work = made = self._read(lambda: self._cluster.create(self._kind.place, manifest))
            self._version = str(made["metadata"]["resourceVersion"])
        except Conflict:
            self.find()
        except Missing as error:
            how = self._kind.remedy or "create the namespace"
            return Outcome(Cause.REJECTED, f"no {self._kind.name} can be created: {how} ({error})", silent=True)
        except InputError as error:
            return Outcome(Cause.REJECTED, str(error), silent=True)
        return None

    def follow(self) -> Outcome:
        """Return how the work ended; shows the logs of its pods, and why it waits, meanwhile."""
        logs = Logs(self._cluster, self._namespace)
        try:
            while True:
                outcome = self._look(logs)
                if outcome is not None:
                    logs.finish()
                    return self._told(outcome, logs)
                self._next()
        finally:
            logs.close()

    def remove(self, *, wait: bool = True) -> None:
        """Delete the work with its pods, each with its grace period; wait until they are gone."""
        if self._work is not None:
            work = self._work
            self._read(lambda: self._cluster.delete(self._kind.place, work, propagation="Foreground"))
        while wait and self.remains():
            self._clock.sleep(AGAIN_SECONDS)
            self._read(self._lease.renew)

    def remains(self) -> bool:
        """Return whether a pod of the work still runs, or the work is on its way out."""
        work = self._read(lambda: self._cluster.get(self._kind.place, self._namespace, self.name))
        if work is not None and not self._kind.state(work).ended:
            return True
        return any(pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") for pod in self._pods())

    def _look(self, logs: Logs) -> Outcome | None:
        """Return how the work ended, None while it has not."""
        self._read(self._lease.renew)
        work = self._work
        pods = self._pods()
        for pod in pods:
            logs.follow(pod)
            if death := pod_death(pod):
                self._deaths[pod["metadata"]["name"]] = death
        if work is None:
            return Outcome(Cause.DELETED, f"{self._kind.name} {self.name}: somebody deleted it", silent=True)
        state = self._kind.state(work)
        if state.ended:
            return self._end(state, pods)
        return None if state.word == "leaving" else self._wait(state, pods)

    def _end(self, state: State, pods: list[dict[str, Any]]) -> Outcome:
        if state.word == "succeeded":
            return Outcome(Cause.DONE)
        death = why_failed(pods) or self._remembered()
        if death is not None:
            return Outcome(death.cause, death.text, silent=True)
        said = " ".join(f"{state.message} {self._of_jobs()}".split())
        cause = by_message(said) or Cause.NODE_LOST
        return Outcome(cause, f"{self._kind.name} {self.name}: {said}", silent=True)

    def _told(self, outcome: Outcome, logs: Logs) -> Outcome:
        """Return the outcome as the ledger has it: it is the truth of what the stage did."""
        if self._run.done():
            return Outcome(Cause.DONE)
        if outcome.cause is Cause.DONE:
            return Outcome(Cause.FAILED, "its process ended with exit code 0 before the stage was done", silent=True)
        failure = self._run.failure()
        if outcome.cause in DISRUPTIONS or failure is None or failure["time"] < self._began:
            return Outcome(Cause.REFUSED, outcome.error) if logs.refused else outcome
        refused = logs.refused or refuses(failure) or outcome.cause is Cause.REFUSED
        return Outcome(Cause.REFUSED if refused else Cause.FAILED, failure["error"])

    def _wait(self, state: State, pods: list[dict[str, Any]]) -> Outcome | None:
        """Tell why the work does not run; return the end of one that has waited too long, after removing it."""
        pending = self._pending(state, pods)
        self._tell(pending.text if pending else "")
        if pending is None or pending.limited is None:
            self._waiting = None
            return None
        now = self._clock.now()
        if self._waiting is None or self._waiting[0] is not pending.limited:
            self._waiting = (pending.limited, now)
        if now - self._waiting[1] <= LIMITS[pending.limited]:
            return None
        self.remove()
        return Outcome(pending.limited, f"{pending.text} (for {(now - self._waiting[1]) / 60:.0f} min)", silent=True)

    def _pending(self, state: State, pods: list[dict[str, Any]]) -> Pending | None:
        begun = sum(pod.get("status", {}).get("phase") not in (None, "Pending") for pod in pods)
        if state.word == "active" and begun >= self._wanted:
            return None
        events = self._events() if state.word == "queued" or len(pods) < self._wanted else []
        return why_pending(pods, self._wanted, events, state.word == "queued")

    def _events(self) -> list[dict[str, Any]]:
        """Return the events of the work, and of the Job that makes the pods of a JobSet."""
        names = {self.name, f"{self.name}-node-0"}
        query = {"fieldSelector": "involvedObject.kind!=Pod"}
        found = self._read(lambda: self._cluster.list(EVENTS, self._namespace, **query))
        return [item for item in found if item.get("involvedObject", {}).get("name") in names]

    def _of_jobs(self) -> str:
        """Return what the Jobs below a JobSet say of their failure."""
        if self._kind is JOB:
            return ""
        query = {"labelSelector": f"{self._kind.pods_by}={self.name}"}
        jobs = self._read(lambda: self._cluster.list(JOB.place, self._namespace, **query))
        return " ".join(state.message for job in jobs if (state := JOB.state(job)).word == "failed")

    def _remembered(self) -> Death | None:
        deaths = sorted(self._deaths.values(), key=lambda death: (death.cause not in DISRUPTIONS, death.moment))
        return deaths[0] if deaths else None

    def _next(self) -> None:
        """Wait for the work's next change, or for a while."""
        try:
            event = self._cluster.watch(self._kind.place, self._namespace, self.name, self._version, WATCH_SECONDS)
        except (Gone, ClusterUnavailable, Conflict, InputError) as error:
            if not isinstance(error, Gone):
                self._clock.sleep(AGAIN_SECONDS)
            self._look_up()
            return
        if event is not None:
            word, found = event
            self._version = found["metadata"]["resourceVersion"]
            if word != "BOOKMARK":
                self._work = None if word == "DELETED" else found

    def _look_up(self) -> None:
        """Read the work anew, and from which version to watch it."""
        look = self._cluster.look
        self._work, self._version = self._read(lambda: look(self._kind.place, self._namespace, self.name))

    def _pods(self) -> list[dict[str, Any]]:
        query = {"labelSelector": f"{self._kind.pods_by}={self.name}"}
        found: list[dict[str, Any]] = self._read(lambda: self._cluster.list(PODS, self._namespace, **query))
        return found

    def _read(self, ask: Callable[[], Any]) -> Any:
        """Ask until Kubernetes answers; raise ClusterUnavailable if it has been away for too long."""
        while True:
            try:
                answer = ask()
            except ClusterUnavailable as error:
                now = self._clock.now()
                self._away = now if self._away is None else self._away
                if now - self._away > AWAY_SECONDS:
                    raise
                self._tell(visible_line(f"Kubernetes does not answer: {error}"))
                self._clock.sleep(AGAIN_SECONDS)
                continue
            self._away = None
            return answer
