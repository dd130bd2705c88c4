"""A stage that counts: small enough to follow by hand, with everything that a real one has."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.context import StageContext
from components.contract.params import Params


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
    """Count, with a line in the journal before each step is logged."""
    params, journal = context.params, Path(context.params.journal)
    if params.exit_code is not None:
        sys.exit(params.exit_code)

    def enter(step: int) -> None:
        if step == params.fail_at and not journal.with_suffix(".failed").exists():
            journal.with_suffix(".failed").touch()
            raise RuntimeError("the disk fell off")
        with journal.open("a") as stream:
            stream.write(f"{context.job.stage} {step}\n")

    count(context, params.steps, before=enter)


def count(
    context: StageContext[Any],
    steps: int,
    *,
    before: Callable[[int], None] = lambda step: None,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """Sum 1 ... steps, plus the inputs' sums; `before` and `after` are called around each step's log and checkpoint."""
    resumed = context.resume()
    step, total = json.loads((resumed / "state.json").read_text()) if resumed else (0, 0)
    while step < steps:
        step, total = step + 1, total + step + 1
        before(step)
        context.log(step, total=total)
        state = json.dumps([step, total])
        context.checkpoint(step, lambda folder, state=state: (folder / "state.json").write_text(state) and None)
        after(step)
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
NEEDY = replace(
    COMPONENT,
    name="needy-for-test",
    summary="Count on from something",
    inputs={"before": Port(type=ArtifactType.MODEL, doc="sums")},
    metrics={},
)
