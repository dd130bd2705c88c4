"""Measurements of a finished run's stages: headline metrics, metrics.json, and the rows of their history."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from components.contract.artifacts import HISTORY_FILE, METRICS_FILE, ArtifactType
from components.contract.errors import InputError
from components.measure.metrics import read_metrics
from components.runtime.ledger.ledger import Ledger
from components.runtime.store import Store
from pipelines.language.problems import meant

_AT = re.compile(r"(?P<metric>.+)@(?P<where>[a-z]+|[0-9]+|[0-9]+_[0-9]+)")
_WHOLE: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "std": statistics.pstdev,
    "rmssd": lambda values: math.sqrt(_mean_square_difference(values)),
}


def _mean_square_difference(values: list[float]) -> float:
    """Return the mean square of the changes from each value to the next, which a slow trend hardly moves.

    Source: von Neumann 1941, Distribution of the Ratio of the Mean Square Successive Difference to the Variance.
    """
    if len(values) < 2:
        raise InputError("@rmssd: expected two logged values or more, whose difference it takes")
    return math.fsum((after - before) ** 2 for before, after in pairwise(values)) / (len(values) - 1)


class Measured:
    """Metrics of one run by stage and name.

    `entropy` is a headline metric or an entry of metrics.json; `seconds` the stage's duration when it ran;
    `entropy@20` the value of the training history at step 20 (or the last one before it), `entropy@10_20` the mean over
    these steps, and `entropy@mean`, `@std`, `@max`, `@min`, `@first`, `@last` over all. `entropy@rmssd` is the root
    mean square of its changes from one logged step to the next: what it varies without its trend.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._ledger = store, Ledger(store)
        self._run = self._ledger.run(run_id)
        self._folder = cache(self._find_folder)
        self._values = cache(self._read_values)
        self._history = cache(self._read_history)

    @property
    def run_seconds(self) -> float:
        """Return how long the run took, without cached stages."""
        return float(self._run.end["seconds"]) if self._run.end else math.nan

    def value(self, stage: str, metric: str) -> float:
        """Return one metric; raise InputError with stage and metric if the run has no such number."""
        if at := _AT.fullmatch(metric):
            return self._in_history(stage, at["metric"], at["where"])
        values = self._values(stage)
        if metric not in values:
            raise InputError(f"stage {stage!r} measured no {metric!r}{meant(metric, sorted(values))}")
        return values[metric]

    def seconds(self, stage: str) -> float:
        """Return the stage's duration when it ran, in this run or in the run whose result was reused."""
        entry = self._entry(stage)
        action = self._ledger.action(entry["fingerprint"]) if entry["fingerprint"] else None
        return float((action or entry)["seconds"])

    def _entry(self, stage: str) -> dict[str, Any]:
        entry = self._run.stages.get(stage)
        if entry is None or entry["status"] != "done":
            status = entry["status"] if entry else "not done"
            raise InputError(f"stage {stage!r} of run {self._run.run_id} is {status}, so there is nothing to compare")
        return entry

    def _find_folder(self, stage: str) -> Path | None:
        outputs = self._entry(stage)["outputs"].values()
        digest = next((output["digest"] for output in outputs if output["type"] == ArtifactType.METRICS), None)
        return self._store.fetch(digest) if digest else None

    def _read_values(self, stage: str) -> dict[str, float]:
        folder = self._folder(stage)
        written = read_metrics(folder) if folder is not None and (folder / METRICS_FILE).is_file() else {}
        found = {name: float(entry["value"]) for name, entry in written.items() if "value" in entry}
        return {**found, **self._entry(stage)["metrics"], "seconds": self.seconds(stage)}

    def _read_history(self, stage: str) -> list[dict[str, float]]:
        folder = self._folder(stage)
        path = folder / HISTORY_FILE if folder is not None else None
        if path is None or not path.is_file():
            raise InputError(f"stage {stage!r} has no history of its steps; leave out the '@'")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]

    def _in_history(self, stage: str, metric: str, where: str) -> float:
        rows = self._history(stage)
        logged = [(int(row["step"]), float(row[metric])) for row in rows if metric in row]
        if not logged:
            known = sorted({name for row in rows for name in row} - {"step"})
            raise InputError(f"the history of stage {stage!r} has no {metric!r}{meant(metric, known)}")
        if where in _WHOLE:
            return float(_WHOLE[where]([value for _, value in logged]))
        if not where[0].isdigit():
            raise InputError(f"{metric}@{where}: expected a step, first_last, or one of {', '.join(_WHOLE)}")
        first, _, last = where.partition("_")
        if last:
            chosen = [value for step, value in logged if int(first) <= step <= int(last)]
            if not chosen:
                raise InputError(f"stage {stage!r} logged no {metric!r} in steps {first} to {last}")
            return math.fsum(chosen) / len(chosen)
        before = [value for step, value in logged if step <= int(first)]
        if not before:
            raise InputError(f"stage {stage!r} logged no {metric!r} up to step {first}")
        return before[-1]
