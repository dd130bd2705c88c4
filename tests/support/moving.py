"""Runs that are to be moved in the middle of a stage that counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from components.runtime.checkpoints.moves import fingerprints_begun
from components.runtime.store import Store

LIMIT_SECONDS = 300.0


def until(holds: Callable[[], Any]) -> Any:
    """Return the first true answer; fail when none comes in time."""
    since = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() < since + LIMIT_SECONDS
        time.sleep(0.02)
    return found


def counting(store: Store, before: set[str]) -> str | None:
    """Return the run begun since `before` whose count has made a checkpoint."""
    for run in set(store.names("ledger/")) - before:
        mark = fingerprints_begun(store, run).get("count")
        if mark and store.partials(mark).exist():
            return run
    return None
