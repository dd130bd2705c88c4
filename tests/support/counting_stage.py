"""A stage that counts: small enough to follow by hand, with everything that a real one has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params, Port
from components.contract.context import StageContext


class CountParams(Params):
    """How far to count, and how to misbehave."""

    steps: int = Field(default=4, ge=1)
    """Steps, with a checkpoint after each."""
    journal: str
    """File that gets a line for every step that is really done."""
    fail_at: int = 0
    """Step at which the first try fails; 0 never does."""
    exit_code: int | None = None
    """Code to leave the process with, if any."""


def run(context: StageContext[CountParams]) -> None:
    """Sum 1 ... steps, plus the inputs' sums."""
    params = context.params
    if params.exit_code is not None:
        sys.exit(params.exit_code)
    resumed = context.resume()
    step, total = json.loads((resumed / "state.json").read_text()) if resumed else (0, 0)
    journal = Path(params.journal)
    while step < params.steps:
        step, total = step + 1, total + step + 1
        if step == params.fail_at and not journal.with_suffix(".failed").exists():
            journal.with_suffix(".failed").touch()
            raise RuntimeError("the disk fell off")
        with journal.open("a") as stream:
            stream.write(f"{context.job.stage} {step}\n")
        context.log(step, total=total)
        state = [step, total]
        context.checkpoint(step, lambda folder, s=state: (folder / "state.json").write_text(json.dumps(s)) and None)
    total += sum(json.loads((item.path / "sum.json").read_text()) for item in context.inputs("before"))
    (context.output("model") / "sum.json").write_text(json.dumps(total))
    (context.output("metrics") / "history.jsonl").write_text("\n".join(map(json.dumps, context.history())))
    context.headline(total=total)


COMPONENT = Component(
    name="count-for-test",
    summary="Count",
    inputs={"before": Port(type=ArtifactType.MODEL, doc="sums", optional=True)},
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="the sum"),
        "metrics": Port(type=ArtifactType.METRICS, doc="the history"),
    },
    params=CountParams,
    run="tests.support.counting_stage:run",
    metrics={"total": "the sum"},
)
NEEDY = Component(
    name="needy-for-test",
    summary="Count on from something",
    inputs={"before": Port(type=ArtifactType.MODEL, doc="sums")},
    outputs=COMPONENT.outputs,
    params=CountParams,
    run="tests.support.counting_stage:run",
)
