"""Rows of run lists."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from components.runtime.ledger.ledger import READERS, RUNNING, UNREADABLE, Ledger
from components.runtime.ledger.records import end_key, run_key


def run_rows(ledger: Ledger, run_ids: list[str]) -> list[dict[str, Any]]:
    """Return {run_id, recipe, status, started, seconds, engine, stages, ended_stages} of each run."""
    counts = _ended_stages(ledger, run_ids)
    ledger.read(key for run_id in run_ids for key in (run_key(run_id), end_key(run_id)))
    return [run_row(ledger, run_id, count) for run_id, count in zip(run_ids, counts, strict=True)]


def run_row(ledger: Ledger, run_id: str, ended_stages: int) -> dict[str, Any]:
    """Return one run's row."""
    records = ledger.read([run_key(run_id), end_key(run_id)])
    entry, end = records.get(run_key(run_id), {}), records.get(end_key(run_id))
    damaged = run_key(run_id) in ledger.damaged or end_key(run_id) in ledger.damaged
    return {
        "run_id": run_id,
        "recipe": entry.get("recipe"),
        "status": end["status"] if end else UNREADABLE if damaged else RUNNING,
        "started": entry.get("started"),
        "seconds": end["seconds"] if end else None,
        "engine": entry.get("engine"),
        "stages": len(entry.get("stages", ())),
        "ended_stages": ended_stages,
    }


def _ended_stages(ledger: Ledger, run_ids: list[str]) -> list[int]:
    def count(run_id: str) -> int:
        return len(ledger.store.names(f"ledger/{run_id}/stages/"))

    if "://" not in ledger.store.uri:
        return [count(run_id) for run_id in run_ids]
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(count, run_ids))
