"""Which store a command works on, and which run of it is meant."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from components.contract.errors import InputError, did_you_mean
from pipelines.cli.parser import DEFAULT_STORE, STORE_VARIABLE

if TYPE_CHECKING:
    from components.runtime.store import Store

LATEST = "latest"


def store_of(arguments: argparse.Namespace) -> Store:
    """Return the store of --store, of the environment, or the one in the working directory."""
    from components.runtime.store import open_store

    default = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    # an empty --store is a script's unset variable: refused by open_store, never another place than was meant
    return open_store(default if arguments.store is None else arguments.store)


def run_of(store: Store, text: str) -> str:
    """Return the run id that `text` means: an id or its beginning, a recipe's name (its newest run), or "latest".

    Raises InputError with near misses.
    """
    from components.runtime.lineage.ledger import list_runs

    runs = list_runs(store)
    if not runs:
        raise InputError(f"there are no runs in {store.uri} yet; start one with 'posttrain run RECIPE'")
    ids = [run["run_id"] for run in runs]
    newest = ids if text == LATEST else [run["run_id"] for run in runs if run["recipe"] == text]
    if newest:
        return newest[0]
    found = [run_id for run_id in ids if text and run_id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"run {text!r} means several: {', '.join(found[:10])}")
    raise InputError(f"unknown run {text!r}{did_you_mean(text, ids[:20])}")
