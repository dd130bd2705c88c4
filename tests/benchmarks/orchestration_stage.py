"""A stage that does nothing but keep a core busy; its jobs are forked from a process that has torch, as training is."""

from __future__ import annotations

import time
from dataclasses import replace

from pydantic import Field

from components.contract.context import StageContext
from components.contract.params import Params
from components.contract.registry import components
from tests.support import counting_stage
from tests.support.counting_stage import count


class WorkParams(Params):
    """How much to do."""

    number: int = Field(ge=0)
    """Tells equal stages apart."""
    seconds: float = Field(default=0.0, ge=0)
    """CPU time to take."""


def run(context: StageContext[WorkParams]) -> None:
    """Take the time, with one step, one checkpoint and two outputs."""
    until = time.process_time() + context.params.seconds
    while time.process_time() < until:
        pass
    count(context, 1)


COMPONENT = replace(
    counting_stage.COMPONENT,
    name="work-for-benchmark",
    params=WorkParams,
    run="tests.benchmarks.orchestration_stage:run",
    preloads=("torch", "transformers.modeling_utils", "tests.benchmarks.orchestration_stage"),
)
components().add(COMPONENT.name, "tests.benchmarks.orchestration_stage:COMPONENT", origin="benchmark")
