"""A stage that counts with a checkpoint at each step, and waits to be killed where a file tells it to."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Params, Port
from components.contract.context import StageContext


class CountParams(Params):
    """How far to count."""

    steps: int = Field(default=4, ge=1)
    """Steps, with a checkpoint after each."""
    halts: str
    """Folder: a file <stage>-<step> in it makes the stage wait there for its end; it then makes the file `reached`."""


def run(context: StageContext[CountParams]) -> None:
    """Sum 1 ... steps, plus the inputs' sums."""
    params, halts = context.params, Path(context.params.halts)
    resumed = context.resume()
    step, total = json.loads((resumed / "state.json").read_text()) if resumed else (0, 0)
    while step < params.steps:
        step, total = step + 1, total + step + 1
        context.log(step, total=total)
        state = json.dumps([step, total])
        context.checkpoint(step, lambda folder, state=state: (folder / "state.json").write_text(state) and None)
        if (halts / f"{context.job.stage}-{step}").exists():
            (halts / "reached").touch()
            signal.pause()
    total += sum(json.loads((item.path / "sum.json").read_text()) for item in context.inputs("before"))
    (context.output("model") / "sum.json").write_text(json.dumps(total))
    (context.output("model") / "weights").write_bytes(bytes(range(256)) * 40)
    (context.output("metrics") / "history.jsonl").write_text("\n".join(map(json.dumps, context.history())))
    context.headline(total=total)


COMPONENT = Component(
    name="chaos-count",
    summary="Count",
    inputs={"before": Port(type=ArtifactType.MODEL, doc="sums", optional=True)},
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="the sum"),
        "metrics": Port(type=ArtifactType.METRICS, doc="the history"),
    },
    params=CountParams,
    run="tests.chaos.counting:run",
    preloads=("tests.chaos.registered",),
    metrics={"total": "the sum"},
)
