"""Damage found by a command on finished runs: one line each, with what to do, and exit code 1."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from components.runtime.store import Store

READERS = 8
MOST = 500
"""Most artifacts that one command checks; `posttrain verify` reads them all."""


def damage_lines(store: Store, digests: Mapping[str, str]) -> list[str]:
    """Return a line for each damaged artifact (digest -> display name), found by a quick check, and what to do."""

    def look(item: tuple[str, str]) -> str | None:
        digest, what = item
        damage = store.look(digest).damage
        return (
            f"{what} ({digest[:12]}) is damaged: {damage}; posttrain verify --repair sets it aside" if damage else None
        )

    with ThreadPoolExecutor(READERS) as readers:
        return [line for line in readers.map(look, list(digests.items())[:MOST]) if line]
