"""One try at a stage on a cluster: its work is created or found again, looked at until it has ended, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError
from pipelines.engines.driver.api import EVENTS, PODS, Cluster, ClusterUnavailable, Conflict, Gone, Missing
from pipelines.engines.driver.causes import DISRUPTIONS, Cause, Death, by_message, pod_death, why_failed
from pipelines.engines.driver.kinds import JOB, KINDS, State
from pipelines.engines.driver.logs import Logs
from pipelines.engines.driver.patience import AGAIN_SECONDS, Clock
from pipelines.engines.driver.pending import Pending, why_pending
from pipelines.engines.driver.record import Try
from pipelines.engines.driver.stage import DrivenStage, refuses
from pipelines.engines.driver.waiting import Notes
from pipelines.engines.shared.pod import SCHEDULE_SECONDS

WATCH_SECONDS = 10
LIMITS = {Cause.NO_NODE: float(SCHEDULE_SECONDS), Cause.IMAGE: 900.0, Cause.CONFIGURATION: 900.0}
"""How long a work may wait for what it lacks; a queue takes as long as it takes."""
Tell = Callable[..., None]
"""Gets why nothing runs, "" once it does; with `limited` and `of` as `Notes.tell` has them."""


@dataclass(frozen=True)
class Outcome:
    """How a try ended."""

    cause: Cause
    error: str = ""
    silent: bool = False
    """Whether the stage could not record its failure itself."""


class Attempt:
    """The work of one try at a stage. Nothing here waits, but for the work's next change."""

    def __init__(
        self, run: DrivenStage, cluster: Cluster, namespace: str, one: Try, *, notes: Notes, tell: Tell, clock: Clock
    ) -> None:
        self._run, self._cluster, self._namespace, self._clock = run, cluster, namespace, clock
        self._try, self._kind, self.name = one, KINDS[one.kind], one.name
        self._notes, self._tell = notes, tell
        self._work: dict[str, Any] | None = None
        self._version = ""
        self._stale = True
        self._met = False
        """Whether the work was there in the time of this process."""
        self._deaths: dict[str, Death] = {}
        self.pods: dict[str, str] = {}
        """Pods that have begun -> their nodes."""

    def find(self) -> bool:
        """Return whether the work is there, in whatever state."""
        self._work, self._version = self._cluster.look(self._kind.place, self._namespace, self.name)
        self._met = self._met or self._work is not None
        self._stale = False
        return self._work is not None

    def create(self, manifest: dict[str, Any]) -> Outcome | None:
        """Create the work, or find what an earlier driver created; return the end of a try that is refused."""
        try:
            self._work = made = self._cluster.create(self._kind.place, manifest)
            self._version, self._stale, self._met = str(made["metadata"]["resourceVersion"]), False, True
        except Conflict:
            self.find()
        except Missing as error:
            how = self._kind.remedy or "create the namespace"
            return Outcome(Cause.REJECTED, f"no {self._kind.name} can be created: {how} ({error})", silent=True)
        except InputError as error:
            return Outcome(Cause.REJECTED, str(error), silent=True)
        return None

    def look(self, logs: Logs) -> Outcome | None:
        """Return how the work ended, None while it has not; shows its logs, and tells why it waits."""
        if self._stale:
            self.find()
        pods = self._pods()
        for pod in pods:
            if pod.get("status", {}).get("phase") not in (None, "Pending"):
                self.pods.setdefault(pod["metadata"]["name"], pod["spec"].get("nodeName") or "a node")
            logs.follow(pod)
            if death := pod_death(pod):
                self._deaths[pod["metadata"]["name"]] = death
        outcome = self._outcome(pods)
        self._stale = True
        if outcome is None:
            return None
        logs.finish()
        return self._told(outcome, refused=logs.refused)

    def delete(self) -> None:
        """Delete the work with its pods, each with its grace period."""
        if self._work is not None or self.find():
            assert self._work is not None
            self._cluster.delete(self._kind.place, self._work, propagation="Foreground")

    def remains(self) -> bool:
        """Return whether a pod of the work still runs, or the work is on its way out."""
        work = self._cluster.get(self._kind.place, self._namespace, self.name)
        if work is not None and not self._kind.state(work).ended:
            return True
        return any(pod.get("status", {}).get("phase") not in ("Succeeded", "Failed") for pod in self._pods())

    def wait_for_change(self) -> None:
        """Wait for the work's next change, or for a while."""
        if self._version:
            try:
                event = self._cluster.watch(self._kind.place, self._namespace, self.name, self._version, WATCH_SECONDS)
            except Gone:
                return
            except (ClusterUnavailable, Conflict, InputError):
                self._clock.sleep(AGAIN_SECONDS)
                return
            self._stale = False
            if event is not None:
                word, found = event
                self._version = found["metadata"]["resourceVersion"]
                if word != "BOOKMARK":
                    self._work = None if word == "DELETED" else found

    def _outcome(self, pods: list[dict[str, Any]]) -> Outcome | None:
        if self._work is None:
            what = f"{self._kind.name} {self.name}"
            if self._met:
                return Outcome(Cause.DELETED, f"{what}: somebody deleted it", silent=True)
            return Outcome(Cause.NODE_LOST, f"{what} was removed while no driver looked", silent=True)
        state = self._kind.state(self._work)
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

    def _told(self, outcome: Outcome, *, refused: bool) -> Outcome:
        """Return the outcome as the ledger has it: it is the truth of what the stage did."""
        if self._run.done():
            return Outcome(Cause.DONE)
        if outcome.cause is Cause.DONE:
            return Outcome(Cause.FAILED, "its process ended with exit code 0 before the stage was done", silent=True)
        if outcome.cause in LIMITS:  # it has not begun
            return outcome
        failure = self._run.failure()
        if outcome.cause in DISRUPTIONS or failure is None or failure["time"] < self._try.began:
            return Outcome(Cause.REFUSED, outcome.error) if refused else outcome
        refused = refused or refuses(failure) or outcome.cause is Cause.REFUSED
        return Outcome(Cause.REFUSED if refused else Cause.FAILED, failure["error"])

    def _wait(self, state: State, pods: list[dict[str, Any]]) -> Outcome | None:
        """Tell why the work does not run; return the end of one that has waited too long."""
        pending = self._pending(state, pods)
        limited = pending.limited if pending else None
        self._tell(pending.text if pending else "", limited=limited, of=self.name if limited else "")
        if pending is None or limited is None:
            return None
        waited = self._clock.now() - self._notes.waiting.since
        if waited <= LIMITS[limited]:
            return None
        return Outcome(limited, f"{pending.text} (for {waited / 60:.0f} min)", silent=True)

    def _pending(self, state: State, pods: list[dict[str, Any]]) -> Pending | None:
        begun = sum(pod.get("status", {}).get("phase") not in (None, "Pending") for pod in pods)
        if state.word == "active" and begun >= self._try.pods:
            return None
        events = self._events() if state.word == "queued" or len(pods) < self._try.pods else []
        return why_pending(pods, self._try.pods, events, state.word == "queued")

    def _events(self) -> list[dict[str, Any]]:
        """Return the events of the work, and of the Job that makes the pods of a JobSet."""
        names = {self.name, f"{self.name}-node-0"}
        found = self._cluster.list(EVENTS, self._namespace, fieldSelector="involvedObject.kind!=Pod")
        return [item for item in found if item.get("involvedObject", {}).get("name") in names]

    def _of_jobs(self) -> str:
        """Return what the Jobs below a JobSet say of their failure."""
        if self._kind is JOB:
            return ""
        jobs = self._cluster.list(JOB.place, self._namespace, labelSelector=f"{self._kind.pods_by}={self.name}")
        return " ".join(state.message for job in jobs if (state := JOB.state(job)).word == "failed")

    def _remembered(self) -> Death | None:
        deaths = sorted(self._deaths.values(), key=lambda death: (death.cause not in DISRUPTIONS, death.moment))
        return deaths[0] if deaths else None

    def _pods(self) -> list[dict[str, Any]]:
        return self._cluster.list(PODS, self._namespace, labelSelector=f"{self._kind.pods_by}={self.name}")
