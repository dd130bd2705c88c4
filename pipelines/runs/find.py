"""A run, or an output of one, as people name it: every command and the notebook take the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.errors import CorruptArtifact, InputError, did_you_mean
from components.runtime.lineage.graph.references import without_scheme

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import Ledger
    from components.runtime.store import Store

LATEST = "latest"


def find_run(store: Store, text: str) -> str:
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


def whole_reference(store: Store, text: str) -> str:
    """Return the name of an artifact without a scheme, and with the whole id of its run: "latest:rl.model" too.

    Raises InputError for an unknown run.
    """
    reference = without_scheme(text)
    run, mark, output = reference.partition(":")
    return f"{find_run(store, run)}:{output}" if mark else reference


def _recipe(ledger: Ledger, run_id: str) -> str | None:
    try:
        return ledger.run_entry(run_id).get("recipe")
    except CorruptArtifact:
        return None
