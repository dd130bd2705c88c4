"""The order in which runs began on a store, independent of their machines' clocks.

    sequence/<number>-<run>.json      written before the run's first record

A run takes the number after the highest that it sees, so it comes after every run that began before it; two that begin
at the same moment may share a number and are then ordered by name. Runs of versions that gave no numbers come first,
ordered by the time in their name or else in their record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from components.contract.errors import CorruptArtifact
from components.runtime.ledger.records import run_key

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "sequence"
DIGITS = 10
_NUMBERED = re.compile(r"(\d+)-(.+)\.json")
_DATED = re.compile(r".+-(\d{8}-\d{6})-[0-9a-f]+")


def number_run(store: Store, run_id: str) -> None:
    """Give a new run the next number; a resumed one keeps its own."""
    known = run_numbers(store)
    if run_id in known or store.get(run_key(run_id)):
        return
    number = max(known.values(), default=0) + 1
    store.put(f"{ROOT}/{number:0{DIGITS}d}-{run_id}.json", {"run_id": run_id, "number": number})


def run_numbers(store: Store) -> dict[str, int]:
    """Return run -> its number, for the runs that have one; the lowest if a race gave it two."""
    found: dict[str, int] = {}
    for name in store.names(f"{ROOT}/"):
        if match := _NUMBERED.fullmatch(name):
            found.setdefault(match[2], int(match[1]))
    return found


def in_order(store: Store, run_ids: list[str]) -> list[str]:
    """Return runs in the order in which they began."""
    numbers = run_numbers(store)
    older = {run_id: _time(store, run_id) for run_id in run_ids if run_id not in numbers}
    return sorted(run_ids, key=lambda run_id: (numbers.get(run_id, 0), older.get(run_id, ""), run_id))


def _time(store: Store, run_id: str) -> str:
    """Return when a run without a number began, by its own clock, as digits: year to second."""
    if dated := _DATED.fullmatch(run_id):
        return dated[1].replace("-", "")
    try:
        entry = store.get(run_key(run_id)) or {}
    except CorruptArtifact:
        return ""
    return re.sub(r"\D", "", str(entry.get("started") or ""))[:14]
