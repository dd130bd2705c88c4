"""A job that tells what it has to import itself; this module imports little, or that would not be counted."""

from __future__ import annotations

import gc
import sys
from multiprocessing.connection import Connection


def tell_late_imports(sender: Connection, environment: object) -> None:
    """Send what the launcher of jobs still has to import, and how many objects no collection visits."""
    before = set(sys.modules)
    import components.runtime.job.process  # noqa: F401

    sender.send((sorted(set(sys.modules) - before), gc.get_freeze_count()))
