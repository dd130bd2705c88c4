"""A stage that counts with a checkpoint at each step, and waits to be killed where a file tells it to."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from components.contract.context import StageContext
from components.contract.params import Params
from tests.support import counting_stage
from tests.support.counting_stage import count


class CountParams(Params):
    """How far to count."""

    steps: int = Field(default=4, ge=1)
    """Steps, with a checkpoint after each."""
    halts: str
    """Folder: a file <stage>-<step> in it makes the stage wait there for its end; it then makes the file `reached`."""


def run(context: StageContext[CountParams]) -> None:
    """Count, and wait after each step that the folder names."""
    halts = Path(context.params.halts)

    def wait(step: int) -> None:
        if (halts / f"{context.job.stage}-{step}").exists():
            while not context.checkpoint_due(0.0):  # it is being written
                time.sleep(0.01)
            (halts / "reached").touch()
            signal.pause()

    count(context, context.params.steps, after=wait)


COMPONENT = replace(
    counting_stage.COMPONENT,
    name="chaos-count",
    params=CountParams,
    run="tests.chaos.counting:run",
    preloads=("tests.chaos.registered",),
)
