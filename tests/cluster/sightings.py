"""What is seen of a run's pods and leases while it goes on: the evidence for what must hold of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipelines.engines.driver.api import LEASES, PODS, Cluster
from pipelines.engines.driver.causes import main_state
from pipelines.engines.driver.kinds import KINDS
from pipelines.engines.driver.lease import ROLE
from pipelines.engines.driver.names import STAGE_KEY
from pipelines.engines.shared.container import label_value
from pipelines.engines.shared.pool_parts import RUN, STAGE


@dataclass
class Sighting:
    """A pod of a stage, as it was when it was last seen."""

    stage: str
    work: str
    """The Job, JobSet or TrainJob that made it; its own name if none did."""
    phase: str
    node: str = ""
    began: float | None = None
    """When its container did, in seconds since the epoch by the node's clock."""
    ended: float | None = None
    gone: bool = False


@dataclass
class Silence:
    """For how long nobody renewed a lease, by this machine's clock: no other clock has to agree with it."""

    renewed: str
    holder: str
    since: float
    longest: float = 0.0


@dataclass
class Sightings:
    """All that was seen of one run."""

    run_id: str
    cluster: Cluster
    namespace: str
    now: Callable[[], float] = time.monotonic
    pods: dict[str, Sighting] = field(default_factory=dict)
    at_once: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    """Stages of which several works ran at the same time, with these works."""
    leases: dict[str, Silence] = field(default_factory=dict)
    """By the key of their stage."""
    excused: set[str] = field(default_factory=set)
    """Keys of stages whose driver was killed on purpose."""
    holders: dict[str, list[str]] = field(default_factory=dict)
    """By the key of a stage: who held its lease, in order."""
    _busy: set[str] = field(default_factory=set)
    """Keys of the stages whose pods ran when last looked."""
    _keys: set[str] = field(default_factory=set)
    """Keys of all stages whose pods were seen to run: leases of other runs are not looked at."""

    def look(self) -> None:
        """Look once; raise ClusterUnavailable if Kubernetes does not answer."""
        found = self.cluster.list(PODS, self.namespace, labelSelector=f"{RUN}={label_value(self.run_id)}")
        self._note_pods(found)
        self._note_leases(self.cluster.list(LEASES, self.namespace, labelSelector=f"{ROLE}=driver"))

    def running(self) -> dict[str, Sighting]:
        """Return the pods that ran when last looked."""
        return {name: one for name, one in self.pods.items() if one.phase == "Running" and not one.gone}

    def works(self, stage: str) -> dict[str, list[Sighting]]:
        """Return the works of a stage with their pods."""
        found: dict[str, list[Sighting]] = {}
        for one in self.pods.values():
            if one.stage == stage:
                found.setdefault(one.work, []).append(one)
        return found

    def _note_pods(self, found: list[dict[str, Any]]) -> None:
        for one in self.pods.values():
            one.gone = True
        keys: set[str] = set()
        for pod in found:
            metadata, labels = pod["metadata"], pod["metadata"].get("labels", {})
            state = main_state(pod)
            times = state.get("running") or state.get("terminated") or {}
            sighting = Sighting(
                labels.get(STAGE, ""),
                work_of(labels) or metadata["name"],
                pod.get("status", {}).get("phase") or "Pending",
                pod.get("spec", {}).get("nodeName") or "",
                moment(times.get("startedAt")),
                moment(times.get("finishedAt")),
            )
            self.pods[metadata["name"]] = sighting
            if sighting.phase == "Running":
                keys.add(labels.get(STAGE_KEY, ""))
        running: dict[str, set[str]] = {}
        for one in self.running().values():
            running.setdefault(one.stage, set()).add(one.work)
        self.at_once |= {(stage, tuple(sorted(works))) for stage, works in running.items() if len(works) > 1}
        self._busy = keys
        self._keys |= keys

    def _note_leases(self, found: list[dict[str, Any]]) -> None:
        """Note how long the leases of stages whose pods run were not renewed."""
        for lease in found:
            key = lease["metadata"].get("labels", {}).get(STAGE_KEY, "")
            renewed, holder = lease["spec"].get("renewTime") or "", lease["spec"].get("holderIdentity") or ""
            if key in self._keys and holder and holder not in self.holders.setdefault(key, []):
                self.holders[key].append(holder)
            known = self.leases.get(key)
            if key not in self._busy:
                if known is not None:
                    known.since = self.now()
                continue
            if known is None or (known.renewed, known.holder) != (renewed, holder):
                self.leases[key] = Silence(renewed, holder, self.now(), known.longest if known else 0.0)
            else:
                known.longest = max(known.longest, self.now() - known.since)


def work_of(labels: dict[str, str]) -> str | None:
    """Return the name of the work that made a pod; a JobSet makes Jobs, and is what counts."""
    names = sorted({kind.pods_by for kind in KINDS.values()}, key=lambda label: "jobset" not in label)
    return next((labels[name] for name in names if name in labels), None)


def moment(text: str | None) -> float | None:
    """Return a time of Kubernetes in seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None
