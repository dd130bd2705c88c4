"""Lists of a store's runs, the one that began last first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from components.runtime.ledger.ledger import Ledger
from components.runtime.ledger.run_index import indexed_runs
from components.runtime.ledger.run_rows import run_rows

if TYPE_CHECKING:
    from components.runtime.store import Store

SHOWN_AS_THEY_ARE = 20
"""Newest runs of a list that are read from the ledger even where an index knows them."""


def list_runs(store: Store) -> list[dict[str, Any]]:
    """Return all runs, the one that began last first, as `run_rows` describes them."""
    ledger = Ledger(store)
    if "://" not in store.uri:
        return run_rows(ledger, ledger.newest)
    indexed = indexed_runs(ledger) if len(ledger.newest) > SHOWN_AS_THEY_ARE else {}
    newest, others = ledger.newest[:SHOWN_AS_THEY_ARE], ledger.newest[SHOWN_AS_THEY_ARE:]
    return run_rows(ledger, newest) + [indexed[run_id]["row"] for run_id in others]


def newest_runs(store: Store, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the runs that began last, newest first and at most so many, and how many there are in all."""
    ledger = Ledger(store)
    return run_rows(ledger, ledger.newest[:most]), len(ledger.newest)
