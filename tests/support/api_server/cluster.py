"""A cluster behind the objects: controllers that make pods, a kubelet that runs them, and what befalls them.

A pod that runs is the stage's process: what it commits goes into the real store. Time passes only when somebody waits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.api_server.objects import Object, Objects, Refused

NAMESPACE = "posttrain"
WORKS = ("jobs", "jobsets", "trainjobs")
COMPLETED = {"jobs": "Complete", "jobsets": "Completed", "trainjobs": "Complete"}
Step = Callable[["SimulatedCluster"], None]


@dataclass
class SimulatedCluster:
    """A cluster with one namespace. `steps` happen one by one as time passes; then all goes well."""

    commit: Callable[[], bool]
    """Writes what the stage's process writes when it is done; returns whether nobody had before."""
    seconds: float = 1.8e9
    steps: list[Step] = field(default_factory=list)
    faults: list[str | int] = field(default_factory=list)
    """What happens to the next requests: a status, "drop" before they are done, or "unheard" after."""
    unknown: set[str] = field(default_factory=set)
    """Kinds that are not installed."""
    rejects: str = ""
    """Why works are refused at admission."""
    quota: bool = False
    """Whether the quota is used up, so that no pod is made."""
    stuck: bool = False
    """Whether nothing goes well by itself after the last step."""
    bookmarks: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    """Names of all works, in order."""
    wrong: list[str] = field(default_factory=list)
    """What must never happen, and did."""
    commits: int = 0
    logs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.objects = Objects(lambda: self.stamp())
        self._numbers = itertools.count()
        self.leaving: list[tuple[str, str, str]] = []

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self.seconds

    def stamp(self) -> str:
        """Return the time as Kubernetes writes it."""
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.tick(seconds)

    def tick(self, seconds: float) -> None:
        """Let time pass, and the next thing happen."""
        self.seconds += max(seconds, 0.001)
        while self.leaving:
            if (key := self.leaving.pop()) in self.objects.kept:
                self.objects.delete(*key)
        if self.steps:
            self.steps.pop(0)(self)
        elif not self.stuck:
            go_well(self)
        self._make_pods()

    def admit(self, plural: str, body: Object) -> Object:
        """Create an object as the API server and the controllers do."""
        if plural in WORKS:
            if self.rejects:
                raise Refused(403, "Forbidden", self.rejects)
            for owner in body["metadata"].get("ownerReferences", ()):
                if owner["uid"] not in {item["metadata"]["uid"] for item in self.objects.list("leases", NAMESPACE)}:
                    self.wrong.append("a work without a living owner: Kubernetes would delete it at once")
        made = self.objects.create(plural, body)
        if plural in WORKS:
            self.created.append(body["metadata"]["name"])
            self._make_pods()
        return made

    def delete(self, plural: str, namespace: str, name: str, options: Object | None) -> Object:
        """Delete an object; in the foreground it is there until its pods have ended."""
        found = self.objects.read(plural, namespace, name)
        if plural == "pods":
            return self._delete_pod(found, options)
        if plural in WORKS and (options or {}).get("propagationPolicy") == "Foreground":
            if found["metadata"]["uid"] != options["preconditions"]["uid"]:
                raise Refused(409, "Conflict", "the uid in the precondition does not match")
            told = {**found["metadata"], "deletionTimestamp": self.stamp()}
            self.objects.change((plural, namespace, name), metadata=told)
            self.leaving.append((plural, namespace, name))
            return found
        return self.objects.delete(plural, namespace, name, options)

    def _delete_pod(self, pod: Object, options: Object | None) -> Object:
        """Delete a pod; a work whose pod ran has failed then, since none tries twice."""
        name, ran = pod["metadata"]["name"], pod["status"]["phase"] == "Running"
        found = self.objects.delete("pods", NAMESPACE, name, options)
        for plural, work in self.active():
            if ran and work["metadata"]["name"] == pod["metadata"].get("annotations"):
                self.finish(plural, work, "failed", "Job has reached the specified backoff limit")
        return found

    def log(self, pod: str | None) -> str:
        """Return a pod's log with times."""
        if pod is None or ("pods", NAMESPACE, pod) not in self.objects.kept:
            raise Refused(404, "NotFound", "no such pod")
        lines = self.logs.get(pod, "").splitlines()
        return "".join(f"{self.stamp()[:-1]}.{at}Z {line}\n" for at, line in enumerate(lines))

    def active(self) -> list[tuple[str, Object]]:
        """Return the works that have not ended and that nobody deletes, with their kinds."""
        works = [(plural, item) for plural in WORKS for item in self._works(plural) if not ended(item)]
        return [(plural, item) for plural, item in works if "deletionTimestamp" not in item["metadata"]]

    def pods(self, work: Object | None = None, *phases: str) -> list[Object]:
        """Return pods, of one work and in some phases if so wanted."""
        name = work and work["metadata"]["name"]
        found = [pod for pod in self.objects.list("pods", NAMESPACE) if name in (None, pod["metadata"]["annotations"])]
        return [pod for pod in found if not phases or pod["status"]["phase"] in phases]

    def set_pod(self, pod: Object, phase: str, state: Object | None = None, **status: Any) -> None:
        """Write a pod's status as the kubelet does."""
        name = pod["spec"]["containers"][0]["name"]
        containers = [{"name": name, "state": state or {}, "restartCount": 0}]
        full = {"phase": phase, "containerStatuses": containers if state else [], **status}
        self.objects.change(("pods", NAMESPACE, pod["metadata"]["name"]), status=full)
        if phase == "Running":
            works = {item["metadata"]["annotations"] for item in self.pods(None, "Running")}
            if len(works) > 1:
                self.wrong.append(f"two works of one stage run at once: {sorted(works)}")

    def finish(self, plural: str, work: Object, word: str, message: str = "", reason: str = "") -> None:
        """Let a controller write the end of a work; pods that still run are ended."""
        kind = COMPLETED[plural] if word == "done" else "Failed"
        told = {"type": kind, "status": "True", "message": message, "reason": reason}
        key = (plural, NAMESPACE, work["metadata"]["name"])
        self.objects.change(key, status={"conditions": [told]})
        for pod in self.pods(work, "Running", "Pending"):
            self.objects.delete("pods", NAMESPACE, pod["metadata"]["name"])

    def event(self, name: str, reason: str, message: str) -> None:
        """Write an event about an object that is no pod."""
        metadata = {"name": f"event-{next(self._numbers)}", "namespace": NAMESPACE}
        told = {"involvedObject": {"kind": "Job", "name": name}, "reason": reason, "message": message}
        self.objects.create("events", {"metadata": metadata, **told})

    def _works(self, plural: str) -> list[Object]:
        return self.objects.list(plural, NAMESPACE)

    def _make_pods(self) -> None:
        """Let the controllers make the pods that works lack."""
        for plural, work in self.active():
            name, count = work["metadata"]["name"], pods_wanted(plural, work)
            if self.pods(work) or work["spec"].get("suspend") or work["metadata"]["name"] in self.gone_pods:
                continue
            if self.quota:
                self.event(name, "FailedCreate", f'pods "{name}-x" is forbidden: exceeded quota: all-stages')
                continue
            for number in range(count):
                self.objects.create("pods", self._pod(plural, work, number, count))

    @property
    def gone_pods(self) -> set[str]:
        """Return the works whose pods are lost, and whose controllers have not noticed yet."""
        return {work["metadata"]["name"] for _, work in self.active() if work["metadata"].get("lost")}

    def _pod(self, plural: str, work: Object, number: int, count: int) -> Object:
        name = work["metadata"]["name"]
        label = "batch.kubernetes.io/job-name" if plural == "jobs" else "jobset.sigs.k8s.io/jobset-name"
        labels = {**template_labels(plural, work), label: name}
        labels |= {"batch.kubernetes.io/job-completion-index": str(number)} if count > 1 else {}
        container = {"name": "node" if plural == "trainjobs" else "stage"}
        owner = {"uid": work["metadata"]["uid"], "kind": "Job", "name": name}
        metadata = {
            "name": f"{name}-{number}-{next(self._numbers)}",
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": name,  # which work it is of
            "ownerReferences": [owner],
        }
        return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Pending"}}


def pods_wanted(plural: str, work: Object) -> int:
    """Return how many pods a work has."""
    if plural == "trainjobs":
        return int(work["spec"]["trainer"]["numNodes"])
    spec = work["spec"] if plural == "jobs" else work["spec"]["replicatedJobs"][0]["template"]["spec"]
    return int(spec["completions"])


def template_labels(plural: str, work: Object) -> Object:
    """Return the labels that a work gives to its pods."""
    if plural == "trainjobs":
        return {}
    spec = work["spec"] if plural == "jobs" else work["spec"]["replicatedJobs"][0]["template"]["spec"]
    labels: Object = spec["template"].get("metadata", {}).get("labels", {})
    return labels


def ended(work: Object) -> bool:
    """Return whether a work has an end of its own."""
    conditions = work.get("status", {}).get("conditions", ())
    return any(item["type"] in ("Complete", "Completed", "Failed") and item["status"] == "True" for item in conditions)


def go_well(world: SimulatedCluster) -> None:
    """Bring the stage one step further."""
    world.quota = False
    for plural, work in world.active():
        key = (plural, NAMESPACE, work["metadata"]["name"])
        if work["metadata"].get("lost"):
            world.finish(plural, work, "failed", "Job has reached the specified backoff limit")
        elif work["spec"].get("suspend"):
            world.objects.change(key, spec={**work["spec"], "suspend": False})
        elif pending := world.pods(work, "Pending"):
            for pod in pending:
                world.set_pod(pod, "Running", {"running": {"startedAt": world.stamp()}})
        elif running := world.pods(work, "Running"):
            succeed(world, plural, work, running)


def succeed(world: SimulatedCluster, plural: str, work: Object, running: list[Object]) -> None:
    """Let the stage's processes end well: the first commits."""
    world.commits += 1
    if not world.commit():
        world.wrong.append("the stage was done twice")
    for pod in running:
        over = {"exitCode": 0, "finishedAt": world.stamp(), "reason": "Completed"}
        world.set_pod(pod, "Succeeded", {"terminated": over})
    world.finish(plural, work, "done")
