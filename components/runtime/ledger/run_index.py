"""An index of a bucket's runs, where every record costs a round trip: each run's row, and the digests its stages name.

It holds succeeded runs, which no longer change. All others, and runs not indexed yet, are read from the ledger; once
many of these have succeeded, the reader rewrites the index. It is never a source of truth: a run that is gone from the
ledger is not returned, a damaged or missing index is made again, and of two concurrent writers the last wins, which
costs only some reading later.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact, StoreUnavailable
from components.runtime.ledger.ledger import READERS, Ledger
from components.runtime.ledger.run_rows import run_row

if TYPE_CHECKING:
    from components.runtime.store import Store

KEY = "index/runs.json"
FORMAT = 1
SHORT = 16
"""Characters of a digest that the index holds: enough for a lookup, whose results are then read."""
WORTH_WRITING = 20
"""Number of new succeeded runs that triggers a rewrite of the index."""

IndexedRun = dict[str, Any]
"""{"row": the run's row in lists, "stages": {stage: prefixes of the digests that its entry names}}."""


def indexed_runs(ledger: Ledger) -> dict[str, IndexedRun]:
    """Return all runs of a bucket."""
    known = _load(ledger.store)
    found = {run_id: known[run_id] for run_id in ledger.run_ids if run_id in known}
    fresh = _read(ledger, [run_id for run_id in ledger.run_ids if run_id not in known])
    settled = {run_id: run for run_id, run in fresh.items() if run["row"]["status"] == "succeeded"}
    if len(settled) >= WORTH_WRITING:
        _save(ledger.store, found | settled)
    return found | fresh


def _load(store: Store) -> dict[str, IndexedRun]:
    try:
        record = store.get(KEY) or {}
    except CorruptArtifact:
        return {}
    return record["runs"] if record.get("format") == FORMAT else {}


def _save(store: Store, runs: dict[str, IndexedRun]) -> None:
    try:
        store.put(KEY, {"format": FORMAT, "runs": runs}, overwrite=True)
    except StoreUnavailable:  # a reader without write access does without
        return


def _read(ledger: Ledger, run_ids: list[str]) -> dict[str, IndexedRun]:
    with ThreadPoolExecutor(READERS) as readers:
        keys = dict(zip(run_ids, readers.map(ledger.keys_of, run_ids), strict=True))
        ledger.read(key for found in keys.values() for key in found)
    return {run_id: _indexed(ledger, run_id, found) for run_id, found in keys.items()}


def _indexed(ledger: Ledger, run_id: str, keys: list[str]) -> IndexedRun:
    entries = ledger.read(key for key in keys if "/stages/" in key).values()
    return {
        "row": run_row(ledger, run_id, len(entries)),
        "stages": {entry["stage"]: list(_named(entry)) for entry in entries},
    }


def _named(entry: dict[str, Any]) -> Iterable[str]:
    used = [item["digest"] for items in entry["inputs"].values() for item in items]
    made = [output["digest"] for output in entry["outputs"].values()]
    return dict.fromkeys(digest[:SHORT] for digest in (*used, *made))
