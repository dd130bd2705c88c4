"""Partial checkpoints for tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from components.runtime.store import Store


def newest_partial(
    store: Store, fingerprint: str, tell: Callable[[str], object] = lambda text: None
) -> tuple[int, Path] | None:
    """Return step and a verified copy of a job's newest partial checkpoint, or None; `tell` hears of damage."""
    folder = Path(tempfile.mkdtemp(prefix="posttrain-test-")) / "partial"
    found = store.partials(fingerprint).load(folder, lambda text: tell(text) and None)
    return found and (found[0], folder)
