"""A stage that asks for more memory than any machine has."""

from __future__ import annotations

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.context import StageContext
from components.contract.job import Resources
from components.contract.memory import GIB, Knob, MemoryEstimate, Need
from components.contract.params import Params


class HungryParams(Params):
    """How much it asks for."""

    petabytes: int = Field(default=4, ge=1)
    """Size of one tensor."""


def run(context: StageContext[HungryParams]) -> None:
    """Ask for one tensor."""
    import torch

    torch.empty(context.params.petabytes << 50, dtype=torch.uint8)


def memory(params: HungryParams, model: object, resources: Resources) -> MemoryEstimate:
    """Return one large and one small need: with GPUs, the large one lies there."""

    def needs(cake: float, crumbs: float) -> tuple[Need, ...]:
        return (Need("crumbs", crumbs, on_host=True), Need("cake", cake))

    cake = params.petabytes * 2.0**50
    knobs = (
        Knob("crumb_size: 1", lambda: needs(cake, 0)),
        Knob("petabytes: 1", lambda: needs(2.0**50, GIB)),
        Knob("napkins: 2", lambda: needs(cake, GIB)),
    )
    return MemoryEstimate(needs(cake, GIB), resources.ranks_per_node, knobs=knobs)


COMPONENT = Component(
    name="hungry-for-test",
    summary="Ask for too much memory",
    inputs={},
    outputs={"model": Port(type=ArtifactType.MODEL, doc="nothing")},
    params=HungryParams,
    run="tests.support.hungry_stage:run",
    memory=memory,
)
