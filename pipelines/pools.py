"""Node pools: what machines stages run on, read from infra/pools.yaml or the file that POSTTRAIN_POOLS names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.contract.errors import InputError
from components.contract.job import Resources
from pipelines.document import read_document
from pipelines.find import is_name
from pipelines.nodes import Node
from pipelines.problems import Problems, shown
from pipelines.wording import add_schema_errors

FILE = Path(__file__).parents[1] / "infra" / "pools.yaml"
VARIABLE = "POSTTRAIN_POOLS"

_LABEL = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$"

Label = Annotated[str, Field(pattern=_LABEL)]
LabelValue = Annotated[str, Field(pattern=_LABEL_VALUE)]
Count = Annotated[int, Field(strict=True)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Toleration(_Frozen):
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


class Pool(_Frozen):
    """A named kind of node."""

    summary: str = ""
    """One line for people."""
    cpus: Annotated[Count, Field(ge=1)]
    """Cores that a job gets on each node."""
    memory_gib: Annotated[float, Field(gt=0)]
    """Memory that a job gets on each node."""
    threads: Annotated[Count, Field(ge=1)] = 1
    """Threads of the numerical libraries; digests are exact only at 1, so raise it only where GPUs do the work."""
    gpus: Annotated[Count, Field(ge=0)] = 0
    """GPUs of a job on each node."""
    gpu_type: str | None = None
    """Kind of GPU, such as h100."""
    nodes: Annotated[Count, Field(ge=1)] = 1
    """Nodes of a job."""
    spot: bool = False
    """Whether nodes may be taken away at any time; stages resume from their last partial checkpoint."""
    node_selector: dict[Label, LabelValue] = Field(default_factory=dict)
    """Labels that a Kubernetes node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints of the nodes that jobs tolerate."""
    shared_memory_gib: Annotated[float, Field(ge=0)] = 0
    """Size of /dev/shm."""
    price_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price of one node for an hour; null where nobody knows it."""

    @model_validator(mode="after")
    def _gpus_fit(self) -> Pool:
        if bool(self.gpus) != (self.gpu_type is not None):
            raise ValueError("a pool with 'gpus' names its 'gpu_type', and only such a pool does")
        return self

    def resources(self, name: str) -> Resources:
        """Return what a job of this pool gets."""
        return Resources(
            pool=name,
            cpus=self.cpus,
            threads=self.threads,
            memory_gib=self.memory_gib,
            gpus=self.gpus,
            nodes=self.nodes,
        )

    @property
    def gpu_count(self) -> int:
        """Return the GPUs of a job on all its nodes."""
        return self.gpus * self.nodes


def load_pools(path: Path | None = None) -> dict[str, Pool]:
    """Return all pools; raise RecipeErrors with file and line of everything that is wrong in the file."""
    if path is None:
        path = Path(os.environ.get(VARIABLE) or FILE)
    if not path.is_file():
        raise InputError(f"pools file {path}: no such file (set {VARIABLE} to another)")
    root = read_document(path).root
    problems = Problems()
    pools = {name: _pool(name, node, problems) for name, node in root.value.items()}
    problems.stop()
    return {name: pool for name, pool in pools.items() if pool is not None}


def _pool(name: str, node: Node, problems: Problems) -> Pool | None:
    if not is_name(name):
        problems.add(node.where, f"pool {shown(name)}: not a name (a-z, 0-9, '-', '_')")
        return None
    plain: Any = node.plain()
    try:
        return Pool.model_validate(plain)
    except ValidationError as error:
        add_schema_errors(problems, error, node, what=f"pool {name!r}, ", schema=Pool)
        return None
