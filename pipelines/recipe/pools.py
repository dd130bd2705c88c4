"""Node pools: the machines that stages run on, read from infra/pools.yaml or the file that POSTTRAIN_POOLS names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from components.contract.backends import DEEPSPEED_ONLY, FSDP_ONLY, Backends, given_backends
from components.contract.errors import InputError
from components.contract.job import Resources
from components.runtime.costs.amounts import Rate
from pipelines.language.document import read_document
from pipelines.language.find import is_name
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.fabric import Fabric
from pipelines.recipe.pods.fields import PodFields, secret_refusal
from pipelines.recipe.pods.values import Frozen, Image, Label, LabelValue, ObjectName

FILE = Path(__file__).parents[2] / "infra" / "pools.yaml"
VARIABLE = "POSTTRAIN_POOLS"
ENDPOINTS = "endpoints"
"""The section of the file that is not a pool; see pipelines.recipe.endpoints."""
RUNS_ON = "POSTTRAIN_RUNS_ON"
"""Default of `runs_on`: `worker` or `pod`. An Airflow without the stages' libraries sets `pod`."""

Count = Annotated[int, Field(strict=True)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class Toleration(Frozen):
    """A taint of the pool's nodes that its pods tolerate, with the fields of Kubernetes."""

    key: Label
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _value_fits(self) -> Toleration:
        if (self.operator == "Exists") == (self.value is not None):
            raise ValueError("a toleration has a 'value' if its operator is Equal, and none if it is Exists")
        return self


class Pool(Backends, PodFields):
    """A named kind of node, with what generates and what trains there."""

    summary: str = ""
    """One line for people."""
    cpus: Annotated[Count, Field(ge=1)]
    """Cores that a job gets on each node."""
    memory_gib: Annotated[float, Field(gt=0)]
    """Memory that a job gets on each node."""
    threads: Annotated[Count, Field(ge=1)] = 1
    """Threads of the numerical libraries; digests repeat at the same number only; raise it where GPUs do the work."""
    gpus: Annotated[Count, Field(ge=0)] = 0
    """GPUs of a job on each node."""
    gpu_type: str | None = None
    """Kind of GPU, such as h100."""
    gpu_memory_gib: Annotated[float, Field(gt=0)] | None = None
    """Memory of one GPU."""
    nodes: Annotated[Count, Field(ge=1)] = 1
    """Nodes of a job."""
    fabric: Fabric | None = None
    """What connects the nodes of a job on several of them."""
    training_runtime: ObjectName | None = None
    """ClusterTrainingRuntime of Kubeflow Trainer: a job on several nodes is then a TrainJob, and a JobSet without."""
    spot: bool = False
    """Whether nodes may be taken away at any time; stages resume from their last partial checkpoint."""
    runs_on: Literal["worker", "pod"] = "worker"
    """Where a job runs: on Airflow's worker or in Kubeflow's task itself, or as a pod on one of the pool's nodes."""
    image: Image | None = None
    """Image of the pool's pods, as name@sha256:...; POSTTRAIN_IMAGE_CPU or POSTTRAIN_IMAGE_GPU where there is none."""
    priority_class: ObjectName | None = None
    """PriorityClass of the pool's pods; the cluster's default where there is none."""
    node_selector: dict[Label, LabelValue] = Field(default_factory=dict)
    """Labels that a Kubernetes node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints of the nodes that jobs tolerate."""
    shared_memory_gib: Annotated[float, Field(ge=0)] = 0
    """Size of /dev/shm."""
    price_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price of one node for an hour; null where nobody knows it."""
    price_per_gpu_hour: Annotated[float, Field(ge=0)] | None = None
    """Price of one GPU with its share of the node for an hour, in place of price_per_hour."""
    currency: Currency | None = None
    """Currency of the price, such as EUR; amounts in several currencies are not added up."""

    @model_validator(mode="after")
    def _gpus_fit(self) -> Pool:
        if bool(self.gpus) != (self.gpu_type is not None):
            raise ValueError("a pool with 'gpus' names its 'gpu_type', and only such a pool does")
        if self.fabric is not None and self.nodes == 1:
            raise ValueError("a pool with a 'fabric' has several 'nodes', which it connects")
        if self.training_runtime is not None and self.nodes == 1:
            raise ValueError("a pool with a 'training_runtime' has several 'nodes'; on one node a job needs none")
        if self.topology is not None and self.nodes == 1:
            raise ValueError("a pool with a 'topology' has several 'nodes', which it keeps together")
        if self.fabric is not None:
            twice = {*self.fabric.resources} & {*self.extended_resources} or {*self.fabric.environment} & {*self.env}
            if twice:
                raise ValueError(f"{min(twice)} is in 'fabric' and in the pool itself; name it once")
        return self

    @model_validator(mode="after")
    def _price_fits(self) -> Pool:
        if self.price_per_gpu_hour is not None and not self.gpus:
            raise ValueError("a pool with 'price_per_gpu_hour' has 'gpus'")
        if self.price_per_gpu_hour is not None and self.price_per_hour is not None:
            raise ValueError("a pool has either 'price_per_hour', of a node, or 'price_per_gpu_hour'")
        if self.currency is not None and self.price_per_hour is None and self.price_per_gpu_hour is None:
            raise ValueError("a pool with a 'currency' has a price: price_per_hour or price_per_gpu_hour")
        return self

    @model_validator(mode="after")
    def _backends_fit(self) -> Pool:
        if reason := self.refusal(self.gpus, self.nodes):
            raise ValueError(reason)
        return self

    def backends(self, override: Backends | None = None) -> Backends:
        """Return the pool's backends, overridden by those of a recipe.

        A recipe that selects another trainer drops the settings that only the pool's trainer has.
        """
        chosen = {} if override is None else override.model_dump(exclude_unset=True)
        own = given_backends(self)
        trainer = chosen.get("trainer", self.trainer)
        only = {"deepspeed": DEEPSPEED_ONLY, "fsdp": FSDP_ONLY}
        dropped = [name for owner, names in only.items() if owner != trainer for name in names]
        dropped += ["processes"] if trainer == "torch" else []
        own = {name: value for name, value in own.items() if name not in dropped}
        return Backends(**{**own, **chosen})

    def resources(self, name: str, override: Backends | None = None) -> Resources:
        """Return the resources of a job of this pool; `override` is its recipe's backends."""
        return Resources(
            pool=name,
            cpus=self.cpus,
            threads=self.threads,
            memory_gib=self.memory_gib,
            gpus=self.gpus,
            nodes=self.nodes,
            gpu_memory_gib=self.gpu_memory_gib,
            **given_backends(self.backends(override)),
        )

    @property
    def gpu_count(self) -> int:
        """Return the GPUs of a job on all its nodes."""
        return self.gpus * self.nodes

    def rate(self, name: str) -> Rate:
        """Return what a job takes while it runs; `name` is the pool's."""
        node = self.price_per_hour
        if self.price_per_gpu_hour is not None:
            node = self.price_per_gpu_hour * self.gpus
        price = None if node is None else node * self.nodes
        return Rate(name, self.cpus * self.nodes, self.gpu_count, price, self.currency or "")


def pools_file(path: Path | None = None) -> Path:
    """Return the file of pools and endpoints, `path` if one is given; raise InputError if it does not exist."""
    path = path or Path(os.environ.get(VARIABLE) or FILE)
    if not path.is_file():
        raise InputError(f"pools file {path}: no such file (set {VARIABLE} to another)")
    return path


def load_pools(path: Path | None = None) -> dict[str, Pool]:
    """Return all pools; raise RecipeErrors with file and line of every mistake."""
    path = pools_file(path)
    default = os.environ.get(RUNS_ON) or "worker"
    if default not in ("worker", "pod"):
        raise InputError(f"{RUNS_ON}={default!r}: expected worker or pod")
    root = read_document(path).root
    problems = Problems()
    pools = {name: _pool(name, node, default, problems) for name, node in root.value.items() if name != ENDPOINTS}
    problems.stop()
    return {name: pool for name, pool in pools.items() if pool is not None}


def _pool(name: str, node: Node, runs_on: str, problems: Problems) -> Pool | None:
    if not is_name(name):
        problems.add(node.where, f"pool {shown(name)}: not a name (a-z, 0-9, '-', '_')")
        return None
    plain: Any = node.plain()
    env = node.child("env") if isinstance(node.value, dict) else None
    variables = env.value if env is not None and isinstance(env.value, dict) else {}
    if secrets := [(value, refusal) for key, value in variables.items() if (refusal := secret_refusal(key))]:
        for value, refusal in secrets:  # the value is not repeated
            problems.add(value.mark, f"pool {name!r}, env: {refusal}")
        return None
    try:
        return Pool.model_validate({"runs_on": runs_on, **plain} if isinstance(plain, dict) else plain)
    except ValidationError as error:
        add_schema_errors(problems, error, node, what=f"pool {name!r}, ", schema=Pool)
        return None
