"""The manifest of a try at a stage, by its kind, and its name."""

from __future__ import annotations

import hashlib
from typing import Any

from components.contract.job import Job
from components.contract.registry import components
from components.runtime.job.ranks import ranks_of
from pipelines.engines.driver.kinds import JOB, JOBSET, TRAINJOB, Kind, kind_of
from pipelines.engines.driver.manifests.batch import batch_manifest
from pipelines.engines.driver.manifests.jobset import jobset_manifest
from pipelines.engines.driver.manifests.trainjob import trainjob_manifest
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool

MAX_STAGE = 24
"""Characters of a stage's name that are kept: names of pods have 63 in all."""
_MANIFESTS = {JOB: batch_manifest, JOBSET: jobset_manifest, TRAINJOB: trainjob_manifest}


def stage_key_of(run_id: str, stage: str) -> str:
    """Return the text of fixed length by which all objects of one stage of one run are found."""
    return hashlib.sha256(f"{run_id}\0{stage}".encode()).hexdigest()[:16]


def work_name(job: Job, number: int) -> str:
    """Return the name of a try's work; tries are counted from 0. A driver that comes later finds the same name."""
    mark = hashlib.sha256(f"{job.run_id}\0{job.stage}\0{number}".encode()).hexdigest()[:8]
    short = "".join(letter if letter.isalnum() else "-" for letter in job.stage.lower())[:MAX_STAGE].strip("-")
    return f"{short or 'stage'}-{mark}" if not short[:1].isdigit() else f"s-{short}-{mark}"


def nodes_of(job: Job) -> int:
    """Return the nodes that a job needs: what does not train in parallel needs but one of its pool's."""
    several = job.resources.nodes > 1 and ranks_of(job, components().get(job.component)) > 1
    return job.resources.nodes if several else 1


def work_kind(job: Job, pool: Pool) -> Kind:
    """Return what a job becomes on its pool."""
    return kind_of(pool, nodes_of(job))


def work_manifest(
    kind: Kind, job: Job, pool: Pool, settings: PodSettings, name: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of one try at a job."""
    return _MANIFESTS[kind](job, pool, settings, name, stage_key_of(job.run_id, job.stage), owner)
