"""The manifest of a try at a stage, by its kind."""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from components.contract.registry import components
from components.runtime.job.ranks import ranks_of
from pipelines.engines.driver.kinds import JOB, JOBSET, TRAINJOB, Kind, kind_of
from pipelines.engines.driver.manifests.batch import batch_manifest
from pipelines.engines.driver.manifests.jobset import jobset_manifest
from pipelines.engines.driver.manifests.trainjob import trainjob_manifest
from pipelines.engines.driver.names import stage_key_of
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool

_MANIFESTS = {JOB: batch_manifest, JOBSET: jobset_manifest, TRAINJOB: trainjob_manifest}


def nodes_of(job: Job) -> int:
    """Return the nodes that a job needs: what does not train in parallel needs but one of its pool's."""
    several = job.resources.nodes > 1 and ranks_of(job, components().get(job.component)) > 1
    return job.resources.nodes if several else 1


def is_driven(job: Job, pool: Pool) -> bool:
    """Return whether a job runs on the cluster, and not in its task's own process or container."""
    return pool.runs_on == "pod" or nodes_of(job) > 1


def work_kind(job: Job, pool: Pool) -> Kind:
    """Return what a job becomes on its pool."""
    return kind_of(pool, nodes_of(job))


def work_manifest(
    kind: Kind, job: Job, pool: Pool, settings: PodSettings, name: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of one try at a job."""
    return _MANIFESTS[kind](job, pool, settings, name, stage_key_of(job.run_id, job.stage), owner)
