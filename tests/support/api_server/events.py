"""What befalls a stage's work on a cluster; each does nothing where there is nothing that it could befall."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.api_server.cluster import NAMESPACE, SimulatedCluster, Step, succeed
from tests.support.api_server.objects import Object

Befalls = Callable[[SimulatedCluster, str, Object], None]


def to_work(act: Befalls) -> Step:
    """Return what befalls the work that is active, if there is one."""

    def step(world: SimulatedCluster) -> None:
        for plural, work in world.active()[:1]:
            act(world, plural, work)

    return step


def _run(world: SimulatedCluster, plural: str, work: Object) -> None:
    for pod in world.pods(work, "Pending"):
        world.set_pod(pod, "Running", {"running": {"startedAt": world.stamp()}})


def _succeed(world: SimulatedCluster, plural: str, work: Object) -> None:
    if running := world.pods(work, "Running"):
        succeed(world, plural, work, running)


def _ends(code: int, word: str = "Error", *, pod: Object | None = None) -> Befalls:
    """Return the end of the first pod that runs, which is that of its work; `pod` is said of the pod as a whole."""
    whole = pod or {}

    def act(world: SimulatedCluster, plural: str, work: Object) -> None:
        for one in world.pods(work, "Running")[:1]:
            over = {"exitCode": code, "reason": word, "message": "as the test wants it", "finishedAt": world.stamp()}
            world.set_pod(one, "Failed", {"terminated": over}, **whole)
            world.finish(plural, work, "failed", "Job has reached the specified backoff limit", "BackoffLimitExceeded")

    return act


def _disrupted(reason: str) -> Befalls:
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "as the test wants it"}
    return _ends(143, pod={"conditions": [told]})


def _commits_and_dies(world: SimulatedCluster, plural: str, work: Object) -> None:
    for _ in world.pods(work, "Running")[:1]:
        world.commits += 1
        if not world.commit():
            world.wrong.append("the stage was done twice")
        _ends(137)(world, plural, work)


def _vanish(world: SimulatedCluster, plural: str, work: Object) -> None:
    """Its node is gone: its pods with it, and the Job's condition is all that is left."""
    if pods := world.pods(work, "Running"):
        for pod in pods:
            world.objects.delete("pods", NAMESPACE, pod["metadata"]["name"])
        said = f"Pod {NAMESPACE}/x has condition DisruptionTarget matching FailJob rule at index 0"
        world.finish(plural, work, "failed", said, "PodFailurePolicy")


def _lose(world: SimulatedCluster, plural: str, work: Object) -> None:
    """Its pods are deleted by force, and its controller notices later."""
    if pods := world.pods(work, "Running"):
        key = (plural, NAMESPACE, work["metadata"]["name"])
        world.objects.change(key, metadata={**work["metadata"], "lost": True})
        for pod in pods:
            world.objects.delete("pods", NAMESPACE, pod["metadata"]["name"])


def _pends(reason: str) -> Befalls:
    def act(world: SimulatedCluster, plural: str, work: Object) -> None:
        for pod in world.pods(work, "Pending")[:1]:
            world.set_pod(pod, "Pending", {"waiting": {"reason": reason, "message": "as the test wants it"}})

    return act


def _no_node(world: SimulatedCluster, plural: str, work: Object) -> None:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    for pod in world.pods(work, "Pending")[:1]:
        world.set_pod(pod, "Pending", None, conditions=[told])


def _suspend(world: SimulatedCluster, plural: str, work: Object) -> None:
    """Its queue takes it back: its pods are deleted, and made again later."""
    key = (plural, NAMESPACE, work["metadata"]["name"])
    world.objects.change(key, spec={**work["spec"], "suspend": True})
    for pod in world.pods(work):
        world.objects.delete("pods", NAMESPACE, pod["metadata"]["name"])


def _delete(world: SimulatedCluster, plural: str, work: Object) -> None:
    world.objects.delete(plural, NAMESPACE, work["metadata"]["name"])


def _quota(world: SimulatedCluster) -> None:
    world.quota = True


def _nothing(world: SimulatedCluster) -> None:
    """Let time pass."""


def faults(*these: str | int) -> Step:
    """Return faults of the API server, for the next requests."""
    return lambda world: world.faults.extend(these)


WELL = {
    "runs": to_work(_run),
    "succeeds": to_work(_succeed),
    "waits": _nothing,
    "no node": to_work(_no_node),
    "quota": _quota,
    "image": to_work(_pends("ErrImagePull")),
    "configuration": to_work(_pends("CreateContainerConfigError")),
    "suspended": to_work(_suspend),
    "commits and dies": to_work(_commits_and_dies),
    "500": faults(500),
    "three 503": faults(503, 503, 503),
    "429": faults(429),
    "dropped": faults("drop"),
    "unheard": faults("unheard"),
    "two unheard": faults("unheard", "unheard"),
    "expired": lambda world: world.objects.expire(),
}
"""What a stage survives without another try."""
OWN = {
    "fails": to_work(_ends(1)),
    "crashes": to_work(_ends(139)),
    "memory": to_work(_ends(137, "OOMKilled")),
    "disk": to_work(_ends(137, pod={"reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds"})),
    "deadline": to_work(_ends(143, pod={"reason": "DeadlineExceeded", "message": "as the test wants it"})),
    "deleted": to_work(_delete),
}
"""What counts as a failure of the stage."""
DISRUPTING = {
    "evicted": to_work(_disrupted("EvictionByEvictionAPI")),
    "preempted": to_work(_disrupted("PreemptionByScheduler")),
    "tainted": to_work(_disrupted("DeletionByTaintManager")),
    "node shuts down": to_work(_ends(143, pod={"reason": "Terminated", "message": "node shutdown"})),
    "node pressure": to_work(_ends(137, pod={"reason": "Evicted", "message": "The node was low on memory"})),
    "vanishes": to_work(_vanish),
    "lost": to_work(_lose),
}
"""What is the cluster's doing."""
