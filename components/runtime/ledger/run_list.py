"""Lists of a store's runs, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from components.runtime.ledger.ledger import Ledger
from components.runtime.ledger.run_index import indexed_runs
from components.runtime.ledger.run_rows import run_rows

if TYPE_CHECKING:
    from components.runtime.store import Store

SHOWN_AS_THEY_ARE = 20
"""Number of newest runs that a list reads from the ledger even if an index has them."""


def list_runs(store: Store) -> list[dict[str, Any]]:
    """Return all runs, newest first, as `run_rows` describes them."""
    ledger = Ledger(store)
    if "://" not in store.uri:
        return run_rows(ledger, ledger.newest)
    indexed = indexed_runs(ledger) if len(ledger.newest) > SHOWN_AS_THEY_ARE else {}
    newest, others = ledger.newest[:SHOWN_AS_THEY_ARE], ledger.newest[SHOWN_AS_THEY_ARE:]
    return run_rows(ledger, newest) + [indexed[run_id]["row"] for run_id in others]


def newest_runs(store: Store, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the newest runs, at most `most`, newest first, and the total number of runs."""
    ledger = Ledger(store)
    return run_rows(ledger, ledger.newest[:most]), len(ledger.newest)
