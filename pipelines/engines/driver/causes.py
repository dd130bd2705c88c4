"""Why a work ended, by what Kubernetes says of it and of its pods."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipelines.engines.shared.attempt import ended

MAIN = ("stage", "node")
"""Names of the container that is the stage's: ours, and that of Kubeflow Trainer's runtimes."""
DISRUPTED = "DisruptionTarget"
"""Condition by which Kubernetes marks a pod that it ends for reasons that are not the pod's."""
REFUSED_CODE = 2


class Cause(StrEnum):
    """Why a try at a stage ended."""

    DONE = "done"
    FAILED = "failed"
    """Its process ended with an error, or died."""
    REFUSED = "refused"
    """Bad input, or a gate that does not hold."""
    MEMORY = "memory"
    DISK = "disk"
    """It wrote more than its pod may keep on the node's disk."""
    TIMEOUT = "timeout"
    DELETED = "deleted"
    """Somebody deleted it."""
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node lost"
    STOPPED = "stopped"
    """Its driver was told to stop."""
    IMAGE = "image"
    """Its image cannot be pulled."""
    CONFIGURATION = "configuration"
    """Its container cannot be made, such as for a Secret that is missing."""
    NO_NODE = "no node"
    """It got no node in the time that it may wait."""
    REJECTED = "rejected"
    """Kubernetes refused to create it."""


DISRUPTIONS = {Cause.EVICTED, Cause.PREEMPTED, Cause.NODE_LOST, Cause.STOPPED}
"""Ends that are the cluster's, not the stage's."""
_BY_DISRUPTION = {
    "PreemptionByScheduler": Cause.PREEMPTED,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "TerminationByKubelet": Cause.EVICTED,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
}
_BY_POD = {
    "DeadlineExceeded": Cause.TIMEOUT,
    "Evicted": Cause.EVICTED,
    "Preempting": Cause.PREEMPTED,
    "Preempted": Cause.PREEMPTED,
    "NodeLost": Cause.NODE_LOST,
    "NodeShutdown": Cause.EVICTED,
    "Terminated": Cause.EVICTED,
    "Shutdown": Cause.EVICTED,
    "NodeAffinity": Cause.NODE_LOST,
    "UnexpectedAdmissionError": Cause.NODE_LOST,
}
_OWN_DISK = ("ephemeral local storage usage exceeds", "local ephemeral storage limit", "usage of emptydir volume")


@dataclass(frozen=True)
class Death:
    """How one pod failed."""

    moment: str
    """When, as text that sorts by time."""
    cause: Cause
    text: str


def why_failed(pods: list[dict[str, Any]]) -> Death | None:
    """Return the death of the pod that ended first: the others end because it did. None if no pod says why.

    A disruption goes before the crash of a peer that noticed it first.
    """
    found = sorted(filter(None, map(pod_death, pods)), key=lambda death: (death.cause not in DISRUPTIONS, death.moment))
    return found[0] if found else None


def pod_death(pod: dict[str, Any]) -> Death | None:
    """Return when a pod failed and why, or None for one that did not."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    last = main_state(pod).get("terminated")
    moment = (last or {}).get("finishedAt") or "~"
    if last is not None and last["exitCode"] == 0 and status.get("phase") != "Failed":
        return None
    if (disrupted := _disruption(status)) and status.get("phase") != "Succeeded":
        told = f"{disrupted['reason']}: {disrupted.get('message') or 'no message'}"
        return Death(moment, _BY_DISRUPTION.get(disrupted["reason"], Cause.EVICTED), f"pod {name}: {told}")
    if reason := status.get("reason"):  # of the pod as a whole: DeadlineExceeded, Evicted, NodeLost ...
        message = status.get("message") or "no message"
        own = reason == "Evicted" and any(words in message.lower() for words in _OWN_DISK)
        cause = Cause.DISK if own else _BY_POD.get(reason, Cause.FAILED)
        return Death(moment, cause, f"pod {name}: {reason}: {message}")
    if last is None:
        return Death(moment, Cause.NODE_LOST, f"pod {name} ended unseen") if status.get("phase") == "Failed" else None
    if last["exitCode"] == 0:
        return None
    return _exit(name, moment, last)


def _exit(name: str, moment: str, last: dict[str, Any]) -> Death:
    if last.get("reason") == "OOMKilled":
        return Death(moment, Cause.MEMORY, f"pod {name} needed more memory than its pool gives (OOMKilled)")
    if last["exitCode"] == REFUSED_CODE:
        return Death(moment, Cause.REFUSED, f"pod {name}: {_last_line(last) or 'its input was refused'}")
    code = last["exitCode"] if last["exitCode"] < 128 else 128 - last["exitCode"]  # as a signal, for a container's 137
    said = ended(code, finished=False, failure=None, last_line=_last_line(last)).error
    return Death(moment, Cause.FAILED, f"pod {name}: {said}")


def by_message(message: str) -> Cause | None:
    """Return the cause that a Job's own condition tells of a pod that is gone; None if it tells none."""
    if DISRUPTED in message:
        return Cause.NODE_LOST
    return Cause.TIMEOUT if "active longer than specified deadline" in message else None


def main_state(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the stage's container, {} before it has one."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((item.get("state") or {} for item in statuses if item["name"] in MAIN), {})


def main_container(pod: dict[str, Any]) -> str:
    """Return the name of the stage's container."""
    names: list[str] = [item["name"] for item in pod["spec"]["containers"]]
    return next((name for name in names if name in MAIN), names[0])


def _disruption(status: dict[str, Any]) -> dict[str, Any] | None:
    found = (item for item in status.get("conditions") or () if item["type"] == DISRUPTED and item["status"] == "True")
    return next((item for item in found if item.get("reason")), None)


def _last_line(last: dict[str, Any]) -> str:
    lines = [line for line in (last.get("message") or "").splitlines() if line.strip()]
    return lines[-1].removeprefix("posttrain: ") if lines else ""
