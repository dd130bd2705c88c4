"""Parallel prefetch of records that a graph traversal will read from a bucket; a directory needs none."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from components.runtime.ledger.records import action_key, run_key
from components.runtime.ledger.run_rows import READERS

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import Ledger


def gather_run(ledger: Ledger, run_id: str) -> None:
    """Prefetch the records of a run, and of what its stages used and made."""
    if "://" in ledger.store.uri:
        records = ledger.read(ledger.keys_of(run_id))
        gather_entries(ledger, [record for key, record in records.items() if "/stages/" in key])


def gather_entries(ledger: Ledger, entries: Iterable[dict[str, Any]]) -> None:
    """Prefetch each ledger entry's run and action, and the manifests of what it used and made."""
    if "://" not in ledger.store.uri:
        return
    entries = list(entries)
    keys = {run_key(entry["run_id"]) for entry in entries}
    keys |= {action_key(entry["fingerprint"]) for entry in entries if entry["fingerprint"]}
    used = [item["digest"] for entry in entries for items in entry["inputs"].values() for item in items]
    made = [output["digest"] for entry in entries for output in entry["outputs"].values()]
    ledger.read(keys)
    with ThreadPoolExecutor(READERS) as readers:
        list(readers.map(ledger.manifest, dict.fromkeys([*used, *made])))
