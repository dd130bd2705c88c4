"""Partial checkpoints for tests."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from components.runtime.store import Store

logger = logging.getLogger(__name__)


def newest_partial(store: Store, fingerprint: str = "fp") -> tuple[int, Path] | None:
    """Return step and a verified copy of a job's newest partial checkpoint, or None; damage is logged."""
    folder = Path(tempfile.mkdtemp(prefix="posttrain-test-")) / "partial"
    found = store.partials(fingerprint).load(folder, logger.warning)
    return found and (found[0], folder)
