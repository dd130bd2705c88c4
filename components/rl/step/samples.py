"""Responses of a run's steps for people to read: a bounded number, worst to best, written as the run goes.

They are appended to an output's file, which partial checkpoints hold: readable during the run, and the same after a
resume. Nothing reads them back, so they change neither what is drawn nor what is learned.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from components.contract.artifacts import canonical_json
from components.contract.samples import shortened, spread
from components.rl.batch.batch import FAILED
from components.rl.step.experience import Experience
from components.rl.step.record import OUTCOME_NAMES, row_of, worst_to_best
from components.rl.step.reward_parts import concatenated

MAX_STEPS = 64
"""Most steps with samples: all steps of a short run, else evenly spaced ones with the first and the last."""
SAMPLES_PER_STEP = 8
"""Responses of such a step, evenly from worst to best reward."""
LEFT_OUT = ("data", "verifier")
"""Fields of the rollouts' rows that only programs read."""


class StepSamples:
    """Appends samples of some steps to a JSON lines file."""

    def __init__(self, path: Path, num_steps: int) -> None:
        self._path = path
        self._steps = set(spread(range(1, num_steps + 1), MAX_STEPS))
        self._latest: list[dict[str, Any]] = []
        """Samples of the latest step, if it is not one of those that have some."""
        self.failure = ""
        """Why the latest of the verifications that failed did."""

    def add(self, got: Experience, step: int) -> None:
        """Append samples of a step, if it is one of those that have some; `step` counts from 1."""
        parts = concatenated(got.collector.seen_parts)
        self._latest = [_row(got, index, step, parts) for index in worst_to_best(got.seen, SAMPLES_PER_STEP)]
        failures = (row["detail"] for row in self._latest if row["outcome"] == OUTCOME_NAMES[FAILED])
        self.failure = next(failures, self.failure)
        if step in self._steps:
            self.end()

    def end(self) -> None:
        """Append the samples of the latest step if they are not in the file: no step follows it."""
        if self._latest:
            with self._path.open("ab") as stream:
                stream.write(b"".join(canonical_json(row) + b"\n" for row in self._latest))
        self._latest = []


def _row(got: Experience, index: int, step: int, parts: dict[str, Tensor]) -> dict[str, Any]:
    batch = got.seen
    row = {name: value for name, value in row_of(batch, index, step).items() if name not in LEFT_OUT}
    values = {name: float(part[index]) for name, part in parts.items()}
    return row | {
        "prompt": shortened(row["prompt"]),
        "response": shortened(row["response"]),
        "detail": got.collector.reason(batch, index),
        "parts": {name: value if math.isfinite(value) else None for name, value in values.items()},
        "finished": bool(batch.finished[index]),
        "author": "other" if bool(batch.external[index]) else "policy",
    }
