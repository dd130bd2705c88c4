"""Where clusters differ: fields of a pool that reach every pod of a stage on it, as a pod, Job, JobSet or TrainJob."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from pipelines.recipe.grammar import Seconds
from pipelines.recipe.pods.affinity import Affinity, Topology
from pipelines.recipe.pods.values import Frozen, Label, LabelValue, ObjectName, Quantity, ResourceName, Text
from pipelines.recipe.pods.volumes import Volume, mounts_twice

QUEUE = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue takes a Job, JobSet, TrainJob or pod into a queue."""
GPU = "nvidia.com/gpu"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OURS = re.compile(
    r"POSTTRAIN_(?!VLLM_|COLLECTIVE_SECONDS|RANK_SECONDS|ENGINE_SECONDS).*|MLFLOW_.*|PYTHON.*|LD_.*|KUBERNETES_.*|PET_.*"
    r"|PATH|HOME|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|JOB_COMPLETION_INDEX|(OMP|MKL)_NUM_THREADS"
)
"""Variables that the launcher, torchrun or the cluster set."""
_SECRET = re.compile(r"(.*_)?(KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS)", re.IGNORECASE)
_OUR_LABELS = ("posttrain.dev/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/", "trainer.kubeflow.org/")
_OUR_LABEL_NAMES = ("app.kubernetes.io/name", "job-name", "controller-uid")


def secret_refusal(name: str) -> str | None:
    """Return why a variable must not be written into a file, or None."""
    if not _SECRET.fullmatch(name):
        return None
    return f"{name} looks like a secret; put it into a Secret and name that in POSTTRAIN_POD_SECRETS"


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("expected the name of a variable: letters, digits and '_', no digit first")
    if _OURS.fullmatch(name):
        raise ValueError(f"{name} is set by posttrain or the cluster; a pool cannot set it")
    if refusal := secret_refusal(name):
        raise ValueError(refusal)
    return name


def _label(name: str) -> str:
    if name == QUEUE:
        raise ValueError("a queue is named by the pool's 'queue'")
    if name.startswith(_OUR_LABELS) or name in _OUR_LABEL_NAMES:
        raise ValueError(f"{name} identifies pods for posttrain, its network policies or Kubernetes; choose another")
    return name


def _resource(name: str) -> str:
    if name == GPU:
        raise ValueError("GPUs are the pool's 'gpus'")
    return name


Amount = Annotated[int, Field(strict=True, ge=1)] | Quantity


class PodFields(Frozen):
    """Fields of a pool that are merged into its pods."""

    env: dict[Annotated[str, AfterValidator(_variable)], Text] = Field(default_factory=dict)
    """Variables of the stage's container, such as HF_HUB_ENABLE_HF_TRANSFER or NCCL_DEBUG; never a secret."""
    labels: dict[Annotated[Label, AfterValidator(_label)], LabelValue] = Field(default_factory=dict)
    """Labels of the pods."""
    annotations: dict[Label, Text] = Field(default_factory=dict)
    """Annotations of the pods, such as kueue.x-k8s.io/podset-required-topology."""
    extended_resources: dict[Annotated[ResourceName, AfterValidator(_resource)], Amount] = Field(
        default_factory=dict, alias="resources"
    )
    """Further resources of each pod by the names of their device plugins: vpc.amazonaws.com/efa: 32, rdma/hca: 1, or
    hugepages-2Mi: 5120Mi."""
    ephemeral_storage: Quantity | None = None
    """Disk of the node for /tmp, logs and the container's layer, such as 500Gi; beyond it the pod is evicted."""
    affinity: Affinity | None = None
    """Affinity with the fields of Kubernetes."""
    topology: Topology | None = None
    """What the nodes of a job on several of them share: {required: topology.kubernetes.io/zone}."""
    grace_period: Seconds | None = None
    """From SIGTERM to SIGKILL, such as 2m: time for a checkpoint; Kubernetes gives 30 s where there is none."""
    volumes: list[Volume] = Field(default_factory=list)
    """Volumes: {mount: /data, claim: datasets, read_only: true}."""
    queue: ObjectName | None = None
    """LocalQueue of Kueue in the pods' namespace; what it runs waits until all of its nodes are free."""

    @model_validator(mode="after")
    def _amounts_fit(self) -> PodFields:
        for name, amount in self.extended_resources.items():
            if isinstance(amount, int) == name.startswith("hugepages-"):
                expected = "an amount of bytes, such as 5120Mi" if isinstance(amount, int) else "a whole number"
                raise ValueError(f"resource {name!r}: got {amount!r}, expected {expected}")
        if (twice := mounts_twice(self.volumes)) is not None:
            raise ValueError(f"two volumes are mounted at {twice}")
        return self
