"""Which stages of which runs name an artifact: read from the ledger of a directory, from the index of a bucket."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.runtime.ledger.records import stage_key
from components.runtime.ledger.run_index import SHORT, indexed_runs

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import Ledger

_DIGEST = re.compile(rb'"digest":"([0-9a-f]{64})"')


class Mentions:
    """Artifact -> the keys of ledger entries that may name it; who reads these sees whether they do."""

    def __init__(self, found: Iterable[tuple[str, Iterable[str]]]) -> None:
        """`found` has the key of each entry and the beginnings of the digests in it."""
        self._keys: dict[str, list[str]] = {}
        for key, digests in found:
            for digest in dict.fromkeys(digests):
                self._keys.setdefault(digest, []).append(key)

    def keys_of(self, digest: str) -> list[str]:
        """Return the keys of the entries."""
        return self._keys.get(digest[:SHORT], [])


def mentions(ledger: Ledger) -> Mentions:
    """Return what all stages of all runs name."""
    store = ledger.store
    if "://" not in store.uri:
        keys = (key for key in store.keys("ledger/") if "/stages/" in key)
        return Mentions((key, digests_in(store.blobs.read(key) or b"")) for key in keys)
    runs = indexed_runs(ledger)
    return Mentions(
        (stage_key(run_id, stage), digests) for run_id, run in runs.items() for stage, digests in run["stages"].items()
    )


def digests_in(data: bytes) -> list[str]:
    """Return the beginnings of all digests that a sealed record names."""
    return [digest[:SHORT].decode() for digest in _DIGEST.findall(data)]
