"""A third-party package with three components: training that multiplies or counts, and a score of the result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from components.contract.alarms import Alarm, Level
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.params import Params


class TrainParams(Params):
    """Parameters of the toy training."""

    factor: int = Field(default=2, ge=1)
    """What the model's number is multiplied with."""
    fail: bool = False
    """Whether the stage fails."""
    leave: bool = False
    """Whether the stage's process ends before the stage is done, with exit code 0."""
    spin: bool = False
    """Whether the stage never ends."""
    explode: bool = False
    """Whether the stage logs a number that raises an alarm."""


class CountParams(Params):
    """Parameters of the toy count."""

    steps: int = Field(default=6, ge=1)
    """How many steps."""
    factor: int = Field(default=1, ge=1)
    """What each step adds."""


class ScoreParams(Params):
    """The toy score has no parameters."""


class ToyConfig(Params):
    """Settings of the toy operator."""

    slope: float = 1.0
    """How steep it is."""


def toy_schedule(*, config: ToyConfig) -> float:
    """Return the slope."""
    return config.slope


def train(context: Any) -> None:
    """Multiply the input model's number, or 1."""
    if context.params.fail:
        raise ValueError("told to fail")
    if context.params.leave:
        print("\x1b[31mso long", flush=True)
        os._exit(0)
    while context.params.spin:
        pass
    if context.params.explode:
        context.log(1, number=1e6)
    before = [json.loads((item.path / "model.json").read_text()) for item in context.inputs("model")]
    number = context.params.factor * (before[0] if before else 1)
    (context.output("model") / "model.json").write_text(json.dumps(number))
    context.headline(number=float(number))


def count(context: Any) -> None:
    """Add in steps, with a checkpoint after each."""
    resumed = context.resume()
    step, number = json.loads((resumed / "state.json").read_text()) if resumed else (0, 0)
    while step < context.params.steps:
        step, number = step + 1, number + context.params.factor
        context.log(step, number=float(number))
        context.progress(step, context.params.steps)
        state = json.dumps([step, number])
        context.checkpoint(step, lambda folder, state=state: (folder / "state.json").write_text(state) and None)
    (context.output("model") / "model.json").write_text(json.dumps(number))
    context.headline(number=float(number))


def misfits(before: CountParams, now: CountParams, held: Any) -> Iterator[str]:
    """Yield why a count cannot go on from a checkpoint."""
    if now.steps <= held.step:
        yield f"steps {now.steps} end before it"


def score(context: Any) -> None:
    """Sum the numbers of all models; the history counts them one by one."""
    numbers = [json.loads((item.path / "model.json").read_text()) for item in context.inputs("models")]
    metrics = {"total": {"value": float(sum(numbers))}}
    (context.output("metrics") / "metrics.json").write_text(json.dumps(metrics))
    rows = [{"step": step, "sum": float(sum(numbers[:step]))} for step in range(1, len(numbers) + 1)]
    (context.output("metrics") / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    context.headline(total=float(sum(numbers)))


_MODEL = Port(type=ArtifactType.MODEL, doc="a number")

TRAIN = Component(
    name="toy-train",
    summary="Multiply a number",
    inputs={"model": Port(type=ArtifactType.MODEL, doc="where to start", optional=True)},
    outputs={"model": _MODEL},
    params=TrainParams,
    run="posttrain_toy:train",
    image="cpu",
    metrics={"number": "the number"},
    alarms=(
        Alarm(
            name="exploded",
            rule=Level(column="number"),
            bound=1000.0,
            rows=1,
            says="the number is {value}",
            helps="lower {factor}",
            reason="no test goes so far",
        ),
    ),
)
COUNT = Component(
    name="toy-count",
    summary="Count in steps",
    inputs={"model": Port(type=ArtifactType.MODEL, doc="what comes before", optional=True)},
    outputs={"model": _MODEL},
    params=CountParams,
    run="posttrain_toy:count",
    forks="posttrain_toy:misfits",
    image="cpu",
    metrics={"number": "the number"},
)
SCORE = Component(
    name="toy-score",
    summary="Sum numbers",
    inputs={"models": Port(type=ArtifactType.MODEL, doc="numbers", many=True)},
    outputs={"metrics": Port(type=ArtifactType.METRICS, doc="the sum")},
    params=ScoreParams,
    run="posttrain_toy:score",
    image="cpu",
    metrics={"total": "the sum"},
)
