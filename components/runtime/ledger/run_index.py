"""An index of the runs of a bucket, where every record costs a round trip: what each run was, and what its stages name.

It holds runs that have succeeded, which nothing adds to any more. All others, and those that it does not know yet, are
read from the ledger; once these are many, whoever read them writes the index anew. It is never a source of truth: a run
that is gone from the ledger is gone from what is returned, an index that is damaged or missing is made again, and of
two that write it at once the last one wins, which costs some reading later and nothing else.
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
"""Characters of a digest that the index holds: enough to find, and what is found is read."""
WORTH_WRITING = 20
"""Runs that have to be new before the index is written anew."""

IndexedRun = dict[str, Any]
"""{"row": what a list shows of the run, "stages": {stage: beginnings of the digests that its entry names}}."""


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
    except StoreUnavailable:  # who may only read does without
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
