"""Declaration of the adopt stage."""

from __future__ import annotations

from components.adopt.params import AdoptParams
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role
from components.contract.heads import ANY

COMPONENT = Component(
    name="adopt",
    summary="Take a model as it is: what the recipe says about the stage (when, approve, register) is the point",
    inputs={
        "model": Port(
            type=ArtifactType.MODEL, doc="a model of this run, a registered one, or one from elsewhere", heads=ANY
        )
    },
    outputs={"model": Port(type=ArtifactType.MODEL, doc="the same model, with the same digest", heads=ANY)},
    params=AdoptParams,
    run="components.adopt.run:run",
    image="cpu",
    role=Role.CHOOSING,
)
