"""A stage that asks for more memory than any machine has."""

from __future__ import annotations

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params, Port
from components.contract.context import StageContext
from components.contract.job import Resources
from components.contract.memory import GIB, MemoryEstimate, Need


class HungryParams(Params):
    """How much it asks for."""

    petabytes: int = Field(default=4, ge=1)
    """Size of one tensor."""


def run(context: StageContext[HungryParams]) -> None:
    """Ask for one tensor."""
    import torch

    torch.empty(context.params.petabytes << 50, dtype=torch.uint8)


def memory(params: HungryParams, model: object, resources: Resources) -> MemoryEstimate:
    """Return one large and one small need."""
    needs = (Need("crumbs", GIB, "crumb_size"), Need("cake", params.petabytes * 2.0**50, "petabytes"))
    return MemoryEstimate(needs, resources.ranks_per_node)


COMPONENT = Component(
    name="hungry-for-test",
    summary="Ask for too much memory",
    inputs={},
    outputs={"model": Port(type=ArtifactType.MODEL, doc="nothing")},
    params=HungryParams,
    run="tests.support.hungry_stage:run",
    memory=memory,
)
