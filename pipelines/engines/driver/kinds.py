"""Kinds of work on a cluster, and what their status says: a Job, a JobSet, a TrainJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pipelines.engines.driver.api import Place
from pipelines.recipe.pools import Pool


@dataclass(frozen=True)
class Kind:
    """One kind of work."""

    name: str
    place: Place
    api_version: str
    pods_by: str
    """Label that its pods have, with its name."""
    succeeded: str
    """Type of the condition that says that it is done; that of a failure is Failed everywhere."""
    remedy: str = ""
    """How a cluster comes to know the kind."""

    def state(self, work: dict[str, Any]) -> State:
        """Return how far a work is by its conditions."""
        for condition in work.get("status", {}).get("conditions") or ():
            if condition.get("status") == "True" and condition["type"] in (self.succeeded, "Failed"):
                word: Literal["succeeded", "failed"] = "failed" if condition["type"] == "Failed" else "succeeded"
                return State(word, condition.get("reason") or "", condition.get("message") or "no message")
        if work["metadata"].get("deletionTimestamp"):
            return State("leaving")
        return State("queued" if work.get("spec", {}).get("suspend") else "active")


@dataclass(frozen=True)
class State:
    """How far a work is."""

    word: Literal["queued", "active", "leaving", "succeeded", "failed"]
    """queued: a queue holds it back; leaving: somebody deletes it."""
    reason: str = ""
    message: str = ""

    @property
    def ended(self) -> bool:
        """Return whether it has an end of its own."""
        return self.word in ("succeeded", "failed")


JOB = Kind("Job", Place("apis/batch/v1", "jobs"), "batch/v1", "batch.kubernetes.io/job-name", "Complete")
JOBSET = Kind(
    "JobSet",
    Place("apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
    "jobset.x-k8s.io/v1alpha2",
    "jobset.sigs.k8s.io/jobset-name",
    "Completed",
    "install JobSet (https://jobset.sigs.k8s.io), which Kueue and Kubeflow Trainer bring along",
)
TRAINJOB = Kind(
    "TrainJob",
    Place("apis/trainer.kubeflow.org/v1alpha1", "trainjobs"),
    "trainer.kubeflow.org/v1alpha1",
    "jobset.sigs.k8s.io/jobset-name",  # Trainer makes a JobSet of the same name
    "Complete",
    "install Kubeflow Trainer 2.2 or later, or leave `training_runtime` of the pool out",
)
KINDS = {kind.name: kind for kind in (JOB, JOBSET, TRAINJOB)}


def kind_of(pool: Pool, nodes: int) -> Kind:
    """Return what a stage on `nodes` nodes of a pool becomes."""
    if pool.training_runtime and nodes > 1:
        return TRAINJOB
    return JOBSET if nodes > 1 else JOB
