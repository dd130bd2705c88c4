"""A stage on several nodes as a JobSet: one pod on each, with names that the others find, and torchrun in each."""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from pipelines.engines.driver.manifests.batch import KEPT_SECONDS, batch_spec, work_metadata, work_pod
from pipelines.engines.driver.manifests.nodes import NODES, PORT, launcher, torchrun
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool


def jobset_manifest(
    job: Job, pool: Pool, settings: PodSettings, name: str, key: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the JobSet of a job whose pool has several nodes; `settings` say the image, and names of secrets."""
    pod = work_pod(job, pool, settings, key)
    (container,) = pod["spec"]["containers"]
    container["command"], container["args"] = torchrun(job, name), launcher(job)
    container["ports"] = [{"containerPort": PORT, "name": "rendezvous", "protocol": "TCP"}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": work_metadata(pod, pool, settings, name, owner),
        "spec": {
            # the headless service exists before any rank is ready: they look for one another to become so
            "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "replicatedJobs": [
                {"name": NODES, "replicas": 1, "template": {"spec": batch_spec(job, pod, job.resources.nodes)}}
            ],
        },
    }
