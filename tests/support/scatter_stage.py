"""A stage that looks at how it is to compute, and may use an operation that never repeats itself."""

from __future__ import annotations

import json
import os

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.context import StageContext
from components.contract.params import Params


class ScatterParams(Params):
    """What it does."""

    put: bool = False
    """Whether to use an operation without a deterministic kernel."""


def run(context: StageContext[ScatterParams]) -> None:
    """Write down the settings that count."""
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    import torch

    if context.params.put:
        torch.zeros(4).put_(torch.tensor([1, 1]), torch.ones(2))
    seen = {"workspace": workspace, "deterministic": torch.are_deterministic_algorithms_enabled()}
    (context.output("model") / "seen.json").write_text(json.dumps(seen))


COMPONENT = Component(
    name="scatter-for-test",
    summary="Scatter numbers",
    inputs={},
    outputs={"model": Port(type=ArtifactType.MODEL, doc="what it saw")},
    params=ScatterParams,
    run="tests.support.scatter_stage:run",
    backends=frozenset({"trainer"}),
)
