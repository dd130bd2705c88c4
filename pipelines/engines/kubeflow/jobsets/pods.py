"""Why a JobSet failed, by what Kubernetes says of its pods."""

from __future__ import annotations

from typing import Any

from pipelines.engines.shared.attempt import ended
from pipelines.engines.shared.pod import CONTAINER


def why_failed(pods: list[dict[str, Any]]) -> str | None:
    """Return the reason of the pod that ended first: the others end because it did. None if no pod says why."""
    found = sorted(filter(None, map(_ending, pods)))
    return found[0][1] if found else None


def _ending(pod: dict[str, Any]) -> tuple[str, str] | None:
    """Return when a pod failed and why, or None for one that did not."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    states = [item["state"] for item in status.get("containerStatuses", []) if item["name"] == CONTAINER]
    state = states[0] if states else {}
    last = state.get("terminated")
    moment = (last or {}).get("finishedAt") or "~"
    if status.get("reason"):  # of the pod as a whole: DeadlineExceeded, Evicted, NodeLost ...
        return moment, f"pod {name}: {status['reason']}: {status.get('message') or 'no message'}"
    if last is None:
        waiting = state.get("waiting", {})
        if status.get("phase") != "Pending":
            return None
        detail = (
            f"{waiting['reason']}: {waiting.get('message') or 'no message'}" if waiting else "it was assigned no node"
        )
        return "~~", f"pod {name} did not start: {detail}"
    if last["exitCode"] == 0:
        return None
    if last.get("reason") == "OOMKilled":
        return moment, f"pod {name} needed more memory than its pool gives (OOMKilled)"
    code = last["exitCode"] if last["exitCode"] < 128 else 128 - last["exitCode"]  # as a signal, for a container's 137
    lines = [line for line in (last.get("message") or "").splitlines() if line.strip()]
    return (
        moment,
        f"pod {name}: {ended(code, finished=False, failure=None, last_line=lines[-1] if lines else '').error}",
    )
