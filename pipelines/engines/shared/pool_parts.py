"""What a pool adds to the pods of its stages, as Kubernetes takes it: for pods, Jobs, JobSets and TrainJobs alike."""

from __future__ import annotations

import math
from typing import Any

from components.contract.job import Job
from pipelines.engines.shared.container import gib, label_value
from pipelines.engines.shared.launcher import container_environment
from pipelines.recipe.fabric import Fabric
from pipelines.recipe.pods.fields import GPU, QUEUE
from pipelines.recipe.pods.volumes import Volume
from pipelines.recipe.pools import Pool

ROLE = "posttrain.dev/role"
RUN = "posttrain.dev/run"
STAGE = "posttrain.dev/stage"
SAME_STAGE = (RUN, STAGE)
"""Labels that the pods of one stage of one run share."""
NOT_EVICTED = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""No autoscaler moves a stage to another node only to save a node."""
PREFERRED_WEIGHT = 100


def labels(job: Job, pool: Pool) -> dict[str, str]:
    """Return the labels of a stage's pods; a value may be an Airflow template, or longer than Kubernetes takes."""
    return {
        **pool.labels,
        "app.kubernetes.io/name": "posttrain",
        ROLE: "stage",
        "posttrain.dev/recipe": job.recipe,
        RUN: job.run_id,
        STAGE: job.stage,
        "posttrain.dev/pool": job.resources.pool,
    }


def queue_labels(pool: Pool) -> dict[str, str]:
    """Return the label by which Kueue queues what carries it: a pod, or the Job, JobSet or TrainJob that makes pods."""
    return {QUEUE: pool.queue} if pool.queue else {}


def pod_annotations(pool: Pool) -> dict[str, str]:
    """Return the annotations of a stage's pods."""
    return {**NOT_EVICTED, **pool.annotations}


def resources(pool: Pool) -> dict[str, Any]:
    """Return requests and limits, which are equal: what a stage may use is its own."""
    amounts = {"cpu": str(pool.cpus), "memory": gib(pool.memory_gib)}
    if pool.gpus:
        amounts[GPU] = str(pool.gpus)
    if pool.ephemeral_storage:
        amounts["ephemeral-storage"] = pool.ephemeral_storage
    further = {**(pool.fabric or Fabric()).resources, **pool.extended_resources}
    amounts |= {name: str(amount) for name, amount in further.items()}
    return {"requests": amounts, "limits": dict(amounts)}


def environment(pool: Pool) -> dict[str, str]:
    """Return the variables of a stage's container."""
    return {**container_environment(), **(pool.fabric or Fabric()).environment, **pool.env}


def volumes(job: Job, pool: Pool) -> list[dict[str, Any]]:
    """Return the volumes of a pod, in the order of `mounts`."""
    shared = {"medium": "Memory", "sizeLimit": gib(pool.shared_memory_gib)}
    claimed = {name: label_value(value) for name, value in labels(job, pool).items() if name != RUN}
    return [
        *([] if _own_tmp(pool) else [{"name": "tmp", "emptyDir": {}}]),
        *([{"name": "shared-memory", "emptyDir": shared}] if pool.shared_memory_gib else []),
        *({"name": volume_name(number), **volume.source(claimed)} for number, volume in enumerate(pool.volumes)),
    ]


def mounts(pool: Pool) -> list[dict[str, Any]]:
    """Return where a container sees the volumes."""
    return [
        *([] if _own_tmp(pool) else [{"name": "tmp", "mountPath": "/tmp"}]),
        *([{"name": "shared-memory", "mountPath": "/dev/shm"}] if pool.shared_memory_gib else []),
        *(_mount(number, volume) for number, volume in enumerate(pool.volumes)),
    ]


def volume_name(number: int) -> str:
    """Return the name of one of the pool's own volumes."""
    return f"pool-{number}"


def placement(job: Job, pool: Pool) -> dict[str, Any]:
    """Return the fields of a pod that decide on its node, its rank among others, and how it is stopped."""
    fields: dict[str, Any] = {
        "nodeSelector": dict(pool.node_selector),
        "tolerations": [toleration.model_dump(exclude_none=True) for toleration in pool.tolerations],
    }
    if found := affinity(job, pool):
        fields["affinity"] = found
    if pool.priority_class:
        fields["priorityClassName"] = pool.priority_class
    if pool.grace_period is not None:
        fields["terminationGracePeriodSeconds"] = math.ceil(pool.grace_period)
    return fields


def affinity(job: Job, pool: Pool) -> dict[str, Any]:
    """Return the pool's affinity, with the one that keeps the nodes of a job together."""
    found: dict[str, Any] = pool.affinity.manifest() if pool.affinity else {}
    if pool.topology is None:
        return found
    selector = {"matchLabels": {name: label_value(labels(job, pool)[name]) for name in SAME_STAGE}}
    among = found.setdefault("podAffinity", {})
    if pool.topology.required:
        term = {"labelSelector": selector, "topologyKey": pool.topology.required}
        among.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
    if pool.topology.preferred:
        term = {"labelSelector": selector, "topologyKey": pool.topology.preferred}
        wish = {"weight": PREFERRED_WEIGHT, "podAffinityTerm": term}
        among.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(wish)
    return found


def node_affinity(pool: Pool) -> dict[str, Any]:
    """Return the part of the pool's affinity that is about nodes."""
    found: dict[str, Any] = pool.affinity.manifest() if pool.affinity else {}
    return dict(found.get("nodeAffinity", {}))


def _mount(number: int, volume: Volume) -> dict[str, Any]:
    found: dict[str, Any] = {"name": volume_name(number), "mountPath": volume.mount}
    if volume.read_only:
        found["readOnly"] = True
    if volume.sub_path:
        found["subPath"] = volume.sub_path
    return found


def _own_tmp(pool: Pool) -> bool:
    return any(volume.mount == "/tmp" for volume in pool.volumes)
