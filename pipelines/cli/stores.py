"""Which store a command works on, and which run in it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from components.contract.errors import CorruptArtifact, InputError, did_you_mean
from pipelines.runs.default_store import default_store

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import Ledger
    from components.runtime.store import Store

LATEST = "latest"


def store_of(arguments: argparse.Namespace) -> Store:
    """Return the store named by --store or the environment, or the one in the working directory."""
    from components.runtime.store import open_store

    default = default_store()
    # an empty --store is a script's unset variable: open_store refuses it rather than using another store
    return open_store(default if arguments.store is None else arguments.store)


def run_of(store: Store, text: str) -> str:
    """Return the run id that `text` means: an id or its beginning, a recipe's name (its newest run), or "latest".

    Raises InputError with near misses.
    """
    from components.runtime.ledger.ledger import Ledger
    from components.runtime.ledger.run_list import list_runs

    ledger = Ledger(store)
    ids = ledger.newest
    if not ids:
        raise InputError(f"there are no runs in {store.uri} yet; start one with 'posttrain run RECIPE'")
    if text == LATEST:
        return ids[0]
    if text in ids:
        return text
    found = [run_id for run_id in ids if text and run_id.startswith(text)]
    # a run's id begins with its recipe; all records are read only for ids from other programs
    newest = next((run_id for run_id in found if _recipe(ledger, run_id) == text), None)
    if newest is None and not found:
        newest = next((run["run_id"] for run in list_runs(store) if run["recipe"] == text), None)
    if newest:
        return newest
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"run {text!r} is ambiguous: {', '.join(found[:10])}")
    raise InputError(f"unknown run {text!r}{did_you_mean(text, ids[:20])}")


def _recipe(ledger: Ledger, run_id: str) -> str | None:
    try:
        return ledger.run_entry(run_id).get("recipe")
    except CorruptArtifact:
        return None
