"""The Job of a stage: one pod, or the numbered pods of several nodes. It never tries twice: its driver does."""

from __future__ import annotations

import math
from typing import Any

from components.contract.job import Job
from pipelines.engines.driver.causes import DISRUPTED
from pipelines.engines.driver.names import STAGE_KEY
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.pod import SCHEDULE_SECONDS, PodSettings, pod_template
from pipelines.engines.shared.pool_parts import queue_labels
from pipelines.recipe.pools import Pool

KEPT_SECONDS = 3 * 86_400
"""How long a work that has ended is kept for inspection."""
LONGEST_SECONDS = 14 * 86_400
"""How long a work without a timeout may take at most, so that nothing runs for ever if nobody looks."""


def work_seconds(job: Job) -> int:
    """Return how long a work may exist, with hours to get its nodes."""
    return math.ceil(job.timeout_seconds or LONGEST_SECONDS) + STARTUP_SECONDS + SCHEDULE_SECONDS


def work_pod(job: Job, pool: Pool, settings: PodSettings, key: str) -> dict[str, Any]:
    """Return the pods of a work."""
    pod = pod_template(job, pool, settings)
    pod["metadata"]["labels"][STAGE_KEY] = key
    return pod


def batch_spec(job: Job, pod: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Return the spec of a batch/v1 Job of `nodes` pods."""
    indexed = {"completionMode": "Indexed"} if nodes > 1 else {}
    return {
        "parallelism": nodes,
        "completions": nodes,
        **indexed,
        "backoffLimit": 0,
        # the condition of a Job outlives its pods: it says that it was the cluster that ended them
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onPodConditions": [{"type": DISRUPTED, "status": "True"}]}]
        },
        "activeDeadlineSeconds": work_seconds(job),
        "template": pod,
    }


def batch_manifest(
    job: Job, pool: Pool, settings: PodSettings, name: str, key: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the Job of a stage on one node."""
    pod = work_pod(job, pool, settings, key)
    metadata = work_metadata(pod, pool, settings, name, owner)
    spec = {**batch_spec(job, pod, 1), "ttlSecondsAfterFinished": KEPT_SECONDS}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def work_metadata(
    pod: dict[str, Any], pool: Pool, settings: PodSettings, name: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a work: the labels of its pods, its queue, and its owner."""
    labels = {**pod["metadata"]["labels"], **queue_labels(pool)}
    return {"name": name, "namespace": settings.namespace, "labels": labels, "ownerReferences": [owner]}
