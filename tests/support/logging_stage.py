"""A stage that logs the losses it is given: every way a training can go, in milliseconds."""

from __future__ import annotations

import math
from pathlib import Path

from components.contract.alarms import Alarm, Growth, NotFinite
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.context import StageContext
from components.contract.errors import NotFiniteError
from components.contract.params import Params


class LogParams(Params):
    """What to log."""

    losses: list[float | None]
    """Loss of each step; null is not a number."""
    learning_rate: float = 0.5
    """What the alarm says to lower."""
    fail_at: int = 0
    """Step at which the first try fails; 0 never does."""
    gradient_fails_at: int = 0
    """Step at which the gradient is infinite; 0 never is."""
    reason: str = ""
    """The reason for an alarm on growth, if it has one."""
    journal: str
    """File that is there after the first failure."""


def run(context: StageContext[LogParams]) -> None:
    """Log a row for each loss, with a checkpoint after every second one."""
    params, resumed = context.params, context.resume()
    done = int((resumed / "step").read_text()) if resumed else 0
    for step, loss in enumerate(params.losses[done : context.ends_at], done + 1):
        if step == params.gradient_fails_at:
            raise NotFiniteError(f"the gradient became inf at step {step}; lower it")
        if step == params.fail_at and not Path(params.journal).exists():
            Path(params.journal).touch()
            raise OSError("the disk fell off")
        if params.reason:
            context.explain("exploded", f"{params.reason} {step}")
        context.log(step, loss=math.nan if loss is None else loss)
        if step % 2 == 0:
            context.checkpoint(step, lambda folder, s=step: (folder / "step").write_text(str(s)) and None)
    (context.output("model") / "losses.txt").write_text(str(params.losses[: context.ends_at]))
    (context.output("metrics") / "metrics.json").write_text("{}")
    rows = context.history()
    (context.output("metrics") / "history.jsonl").write_text("".join(f"{row}\n".replace("'", '"') for row in rows))


COMPONENT = Component(
    name="log-for-test",
    summary="Log",
    inputs={},
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="the losses"),
        "metrics": Port(type=ArtifactType.METRICS, doc="the history"),
    },
    params=LogParams,
    run="tests.support.logging_stage:run",
    rolls_back=True,
    alarms=(
        Alarm(
            name="not_finite",
            rule=NotFinite(columns=("loss",)),
            bound=0,
            rows=1,
            says="{value} is not finite",
            helps="lower {learning_rate}",
            reason="it is none",
        ),
        Alarm(
            name="exploded",
            rule=Growth(column="loss", window=2),
            bound=2.0,
            rows=2,
            says="{value} after {best}",
            helps="lower {learning_rate}",
            reason="for the test",
        ),
    ),
)
