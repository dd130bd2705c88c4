"""A stage on several nodes as a TrainJob of Kubeflow Trainer: the same pods, by way of a ClusterTrainingRuntime.

The runtime (infra/kubernetes/trainer) holds what a TrainJob cannot say: the priority class, Secrets and ConfigMaps that
become variables, and what belongs to the cluster's network. Its container and its group of pods are called node.
"""

from __future__ import annotations

from typing import Any

from components.contract.job import Job
from pipelines.engines.driver.manifests.batch import work_metadata, work_pod, work_seconds
from pipelines.engines.driver.manifests.nodes import NODES, launcher, torchrun
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool

MANAGER = "posttrain.dev/driver"
OF_THE_POD = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "schedulingGates",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
)
"""What a TrainJob may say of its pods."""


def trainjob_manifest(
    job: Job, pool: Pool, settings: PodSettings, name: str, key: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """Return the TrainJob of a job whose pool has several nodes and names a training runtime."""
    pod = work_pod(job, pool, settings, key)
    (container,) = pod["spec"]["containers"]
    patched = {item: pod["spec"][item] for item in OF_THE_POD if item in pod["spec"]}
    patched["containers"] = [
        {"name": NODES, **{item: container[item] for item in ("securityContext", "volumeMounts")}},
    ]
    template = {"metadata": pod["metadata"], "spec": patched}
    replicated = [{"name": NODES, "template": {"spec": {"template": template}}}]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": work_metadata(pod, pool, settings, name, owner),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": pool.training_runtime,
            },
            "activeDeadlineSeconds": work_seconds(job),
            "trainer": {
                "image": container["image"],
                "command": torchrun(job, name),
                "args": launcher(job),
                "env": container["env"],
                "numNodes": job.resources.nodes,
                "numProcPerNode": job.resources.ranks_per_node,
                "resourcesPerNode": container["resources"],
            },
            "runtimePatches": [
                {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated}}}}
            ],
        },
    }
