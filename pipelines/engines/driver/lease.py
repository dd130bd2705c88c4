"""A driver's lease on its stage: one driver at a time, and an owner for what it creates.

Kubernetes deletes what a deleted lease owns. A lease that nobody renews is deleted by the reaper, so a driver that was
lost for good leaves nothing that runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from components.contract.errors import PosttrainError
from pipelines.engines.driver.api import LEASES, Cluster, Conflict
from pipelines.engines.driver.names import STAGE_KEY, stage_key_of

DURATION_SECONDS = 90
"""How long a driver may be silent before another one may take its place."""
RENEW_SECONDS = 20.0
HANDED_OVER = "handed over"
"""Holder of a lease whose driver awaits another one; work goes on under it."""
FORM = "%Y-%m-%dT%H:%M:%S.%fZ"
ROLE = "posttrain.dev/role"


class LeaseLost(PosttrainError):
    """Another driver has taken this one's place."""


class Lease:
    """One stage's lease, as the driver `holder` sees it."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        holder: str,
        *,
        labels: dict[str, str],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cluster, self._namespace, self._name, self._holder = cluster, namespace, name, holder
        self._labels, self._now = labels, now
        self._held: dict[str, Any] | None = None
        self._renewed = 0.0
        self.looked: str | None = None
        """When this driver, in an earlier process, showed for the last time that it lives."""

    @property
    def held(self) -> bool:
        """Return whether this driver took the lease and has not given it back."""
        return self._held is not None

    @property
    def owner(self) -> dict[str, Any]:
        """Return the reference by which Kubernetes deletes with the lease what belongs to it."""
        assert self._held is not None
        uid = self._held["metadata"]["uid"]
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": self._name, "uid": uid}

    def hold(self) -> bool:
        """Take the lease, or renew it; return whether this driver holds it. Raises LeaseLost like `renew`."""
        if self._held is None:
            return self.take()
        self.renew()
        return True

    def take(self) -> bool:
        """Take the lease if nobody holds it; return whether this driver holds it now."""
        found = self._cluster.get(LEASES, self._namespace, self._name)
        try:
            if found is None:
                self._held = self._cluster.create(LEASES, self._manifest())
            elif found["metadata"].get("deletionTimestamp") or is_held(found, self._now(), but=self._holder):
                return False
            else:
                spec = found["spec"]
                self.looked = spec.get("renewTime") if spec.get("holderIdentity") == self._holder else None
                self._held = self._cluster.replace(LEASES, {**found, "spec": self._spec()})
        except Conflict:
            return False
        self._renewed = self._now()
        return True

    def renew(self) -> None:
        """Show that this driver lives; raise LeaseLost if another one has taken its place."""
        assert self._held is not None
        if self._now() - self._renewed < RENEW_SECONDS:
            return
        for _ in range(2):
            try:
                self._held = self._cluster.replace(LEASES, {**self._held, "spec": self._spec()})
                self._renewed = self._now()
                return
            except Conflict:  # an answer that was lost on the way, or another driver
                found = self._cluster.get(LEASES, self._namespace, self._name)
                if found is None or found["spec"].get("holderIdentity") != self._holder:
                    break
                self._held = found
        raise LeaseLost(f"another driver holds the lease {self._name}: it goes on with the stage")

    def end(self, *, delete: bool) -> None:
        """Give the lease back; `delete` deletes what it owns with it, and otherwise the reaper does so in some days."""
        if self._held is None:
            return
        if delete:
            self._cluster.delete(LEASES, self._held)
        else:
            self._release("")
        self._held = None

    def hand_over(self) -> None:
        """Let the next driver take the lease, and what works under it, at once; without one, the reaper deletes it."""
        if self._held is not None:
            self._release(HANDED_OVER)
            self._held = None

    def _release(self, holder: str) -> None:
        assert self._held is not None
        try:
            self._cluster.replace(LEASES, {**self._held, "spec": {**self._spec(), "holderIdentity": holder}})
        except Conflict:
            return  # another driver has it

    def _spec(self) -> dict[str, Any]:
        moment = datetime.fromtimestamp(self._now(), UTC).strftime(FORM)
        acquired = moment if self._held is None else self._held["spec"].get("acquireTime", moment)
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": acquired,
            "renewTime": moment,
        }

    def _manifest(self) -> dict[str, Any]:
        metadata = {"name": self._name, "namespace": self._namespace, "labels": {**self._labels, ROLE: "driver"}}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._spec()}


def stage_lease(
    cluster: Cluster, namespace: str, stage: tuple[str, str], holder: str, now: Callable[[], float]
) -> Lease:
    """Return the lease of a stage, given as (run id, name)."""
    key = stage_key_of(*stage)
    return Lease(cluster, namespace, f"posttrain-{key}", holder, labels={STAGE_KEY: key}, now=now)


def is_held(lease: dict[str, Any], now: float, *, but: str = "") -> bool:
    """Return whether a driver other than `but` holds a lease and is not overdue."""
    holder = lease["spec"].get("holderIdentity") or ""
    return holder not in ("", HANDED_OVER, but) and silent_seconds(lease, now) <= lease["spec"]["leaseDurationSeconds"]


def silent_seconds(lease: dict[str, Any], now: float) -> float:
    """Return for how long nobody has renewed a lease."""
    moment = lease["spec"].get("renewTime") or lease["metadata"].get("creationTimestamp")
    return now - datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else 0.0
