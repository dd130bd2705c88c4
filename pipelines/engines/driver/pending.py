"""Why a work does not run yet: its queue, its namespace's quota, no node, its image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from components.contract.terminal import visible_line
from pipelines.engines.driver.causes import Cause, main_state

IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
CONFIGURATION = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
SHOWN = 300


@dataclass(frozen=True)
class Pending:
    """Why something waits; `limited` says which of a driver's limits counts."""

    text: str
    limited: Cause | None = None
    """NO_NODE, IMAGE or CONFIGURATION; None while a queue decides, which takes as long as it takes."""


def why_pending(pods: list[dict[str, Any]], wanted: int, events: list[dict[str, Any]], queued: bool) -> Pending | None:
    """Return why a work of `wanted` pods does not run, or None if it does; `events` are those of the work itself."""
    if queued:
        said = _last(events, {"Pending", "Suspended", "QuotaReserved"})
        return Pending(f"waits in its queue{f': {said}' if said else ''}")
    found = [reason for pod in pods if (reason := _of_pod(pod))]
    for cause in (Cause.IMAGE, Cause.CONFIGURATION, Cause.NO_NODE):
        chosen = next((reason for reason in found if reason.limited is cause), None)
        if chosen:
            return chosen
    if len(pods) < wanted and (said := _last(events, {"FailedCreate"})):
        what = "its namespace's quota is used up" if "exceeded quota" in said else "its pods cannot be created"
        return Pending(f"{what}: {said}", Cause.NO_NODE)
    if len(pods) < wanted:
        return Pending(f"waits for {wanted - len(pods)} of {wanted} pods", Cause.NO_NODE)
    return found[0] if found else None


def _of_pod(pod: dict[str, Any]) -> Pending | None:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    if status.get("phase") not in (None, "Pending"):
        return None
    waiting = main_state(pod).get("waiting") or {}
    reason, message = waiting.get("reason", ""), _line(waiting.get("message") or "")
    if reason in IMAGE:
        return Pending(f"the image of pod {name} cannot be pulled: {reason}: {message}", Cause.IMAGE)
    if reason in CONFIGURATION:
        return Pending(f"pod {name} cannot start: {reason}: {message}", Cause.CONFIGURATION)
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            said = _line(condition.get("message") or condition.get("reason") or "")
            return Pending(f"no node for pod {name}: {said}", Cause.NO_NODE)
    return Pending(f"pod {name} starts{f': {reason}' if reason else ''}", Cause.NO_NODE)


def _last(events: list[dict[str, Any]], reasons: set[str]) -> str:
    """Return the message of the newest event with one of the reasons."""
    chosen = [item for item in events if item.get("reason") in reasons]
    chosen.sort(key=lambda item: item.get("lastTimestamp") or item.get("eventTime") or "")
    return _line(chosen[-1].get("message") or "") if chosen else ""


def _line(text: str) -> str:
    line = visible_line(" ".join(text.split()))
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
