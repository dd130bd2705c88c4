"""A stage on several nodes as a JobSet: one pod on each, with names that the others find, and torchrun in each."""

from __future__ import annotations

import hashlib
from typing import Any

from components.contract.job import Job
from pipelines.engines.shared.launcher import LAUNCHER, launcher_arguments
from pipelines.engines.shared.pod import CONTAINER, PodSettings, pod_template
from pipelines.engines.shared.pool_parts import queue_labels
from pipelines.recipe.pools import Pool

PORT = 29_500
NODES = "node"
"""Name of the JobSet's one group of pods; theirs are <jobset>-node-0-<number of the node>."""
KEPT_SECONDS = 3 * 86_400
"""How long a failed JobSet is kept for inspection."""
LABEL = "jobset.sigs.k8s.io/jobset-name"
"""By which JobSet labels the pods of one."""
MAX_STAGE = 24
"""Characters of a stage's name that are kept: names of pods have 63 in all."""


def jobset_name(job: Job, number: int) -> str:
    """Return the name of the JobSet of an attempt; they are counted from 0."""
    mark = hashlib.sha256(f"{job.run_id}\0{job.stage}\0{number}".encode()).hexdigest()[:8]
    return f"{job.stage.replace('_', '-')[:MAX_STAGE].rstrip('-')}-{mark}"


def jobset_manifest(job: Job, pool: Pool, settings: PodSettings, name: str) -> dict[str, Any]:
    """Return the JobSet of a job whose pool has several nodes; `settings` say the image, and names of secrets."""
    pod = pod_template(job, pool, settings)
    (container,) = pod["spec"]["containers"]
    assert container["name"] == CONTAINER
    container["command"], container["args"] = torchrun(job, pool, name), launcher(job)
    container["ports"] = [{"containerPort": PORT, "name": "rendezvous", "protocol": "TCP"}]
    job_template = {
        "parallelism": pool.nodes,
        "completions": pool.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # the remaining ranks cannot continue: the attempt ends as a whole
        "template": pod,
    }
    labels = {**pod["metadata"]["labels"], **queue_labels(pool)}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": labels},
        "spec": {
            # the headless service exists before any rank is ready: they look for one another to become so
            "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "replicatedJobs": [{"name": NODES, "replicas": 1, "template": {"spec": job_template}}],
        },
    }


def torchrun(job: Job, pool: Pool, name: str) -> list[str]:
    """Return every node's command: its training processes, with the rendezvous at the first node."""
    return [
        "torchrun",
        f"--nnodes={pool.nodes}",
        f"--nproc-per-node={job.resources.ranks_per_node}",
        "--rdzv-backend=c10d",
        f"--rdzv-id={name}",
        f"--rdzv-endpoint={name}-{NODES}-0-0.{name}:{PORT}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        "-m",
        LAUNCHER,
    ]


def launcher(job: Job) -> list[str]:
    """Return what the launcher is told on every rank; torchrun would take --run for an option of its own."""
    return launcher_arguments(job.store, job.run_id, job.stage, "--alone", run="--run-id")
