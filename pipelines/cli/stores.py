"""Which store a command works on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.runs.default_store import chosen_store

if TYPE_CHECKING:
    from components.runtime.store import Store


def store_of(arguments: argparse.Namespace) -> Store:
    """Return the store named by --store or the environment, of this project, or of the user's setting."""
    return chosen_store(arguments.store)
