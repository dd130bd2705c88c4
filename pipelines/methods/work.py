"""The work behind results: each stage once, whichever run and whichever command executed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.runtime.costs.attempts import attempts_of
from components.runtime.ledger.ledger import Ledger

if TYPE_CHECKING:
    from components.runtime.store import Store

Work = dict[tuple[str, str], float]
"""(run, stage) that executed it -> CPU seconds of all its attempts."""


def work_behind(store: Store, run_ids: Iterable[str]) -> Work:
    """Return what made the results of some runs: their own stages, and those of others that they reused."""
    ledger = Ledger(store)
    makers: dict[str, set[str]] = {}
    for run_id in run_ids:
        for entry in ledger.run(run_id).stages.values():
            action = ledger.action(entry["fingerprint"]) if entry["fingerprint"] else None
            if action is not None:
                makers.setdefault(action["run_id"], set()).add(action["stage"])
    found: Work = {}
    for run_id, stages in makers.items():
        attempts, _ = attempts_of(store, run_id)
        found |= {(run_id, stage): sum(each.cpu_seconds for each in attempts.get(stage, ())) for stage in stages}
    return found
