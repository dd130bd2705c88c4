"""Start-up of stages: what an attempt takes beside the stage's work, measured on earlier runs or assumed.

Process, imports, inputs and the commit of outputs: for a stage of seconds that is more than its work. What a pod waits
for its node is in no attempt, and not in this either.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.runtime.costs.attempts import attempts_of
from components.runtime.ledger.ledger import Ledger

if TYPE_CHECKING:
    from components.runtime.store import Store

ASSUMED = {"local": 1.5, "airflow": 10.0, "kubeflow": 10.0}
"""Engine -> seconds where nothing has been measured: a fork of a process that has the libraries, or a fresh process
that imports them. Other engines count as fresh processes."""
MAX_RUNS = 3
"""Runs with measured stages that count, the newest."""


class Startup:
    """The start-up of stages on one engine, by component."""

    def __init__(self, store: Store, runs: Iterable[str], engine: str) -> None:
        """`runs` are the runs to learn from, the newest first."""
        self._store, self._runs, self.engine = store, runs, engine

    def seconds(self, component: str) -> float:
        """Return the median of the component's stages, else that of all stages, else what is assumed."""
        own = self._measured.get(component) or [one for found in self._measured.values() for one in found]
        return median(own) if own else ASSUMED.get(self.engine, ASSUMED["airflow"])

    @property
    def is_measured(self) -> bool:
        """Return whether earlier runs on the engine tell anything."""
        return bool(self._measured)

    @cached_property
    def _measured(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        ledger, left = Ledger(self._store), MAX_RUNS
        for run_id in self._runs:
            if left and (of_run := self._of_run(ledger, run_id)):
                left -= 1
                for component, seconds in of_run:
                    found.setdefault(component, []).append(seconds)
        return found

    def _of_run(self, ledger: Ledger, run_id: str) -> list[tuple[str, float]]:
        """Return (component, start-up) of the stages that one attempt of a run made from their beginning."""
        try:
            if ledger.run_entry(run_id).get("engine") != self.engine:
                return []
            attempts, _ = attempts_of(self._store, run_id)
            found = []
            for stage, tries in attempts.items():
                entry = ledger.stage(run_id, stage)
                if entry and entry["cache"] == "miss" and len(tries) == 1:
                    found.append((entry["component"], max(0.0, tries[0].seconds - float(entry["seconds"]))))
            return found
        except PosttrainError:  # history is advice: the commands on damage name it
            return []
