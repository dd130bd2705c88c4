"""What connects the nodes of a pool, for jobs that train on several of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ResourceName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
]
Variable = Annotated[str, Field(pattern=r"^(NCCL|FI|UCX|GLOO)_[A-Z0-9_]{1,80}$")]
"""Of NCCL and what it sends through: a pool sets nothing that a stage or the launcher reads."""
Value = Annotated[str, Field(pattern=r"^[^$\x00-\x1f\x7f]{1,512}$")]
"""Without what Kubernetes would replace: $(NAME)."""


class Fabric(BaseModel):
    """RDMA devices, NCCL's settings and locked memory of the pods of a job on several nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False)

    resources: dict[ResourceName, Annotated[int, Field(strict=True, ge=1)]] = Field(default_factory=dict)
    """Devices of each node by the names of their plugin, such as rdma/hca_shared: 1 or vpc.amazonaws.com/efa: 32."""
    environment: dict[Variable, Value] = Field(default_factory=dict)
    """Variables of NCCL, libfabric, UCX and gloo, such as NCCL_IB_HCA: mlx5 and NCCL_SOCKET_IFNAME: eth0."""
    lock_memory: bool = Field(default=False, strict=True)
    """Whether containers get the capability IPC_LOCK, to register memory with RDMA devices. Stages do not run as root,
    so the container runtime of the nodes needs LimitMEMLOCK=infinity, too."""
