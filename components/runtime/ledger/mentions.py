"""Which stages of which runs name an artifact: read from a directory's ledger or a bucket's index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from components.runtime.ledger.ledger import Ledger
from components.runtime.ledger.records import stage_key
from components.runtime.ledger.run_index import SHORT, indexed_runs

_DIGEST = re.compile(rb'"digest":"([0-9a-f]{64})"')


class Mentions:
    """Finds the ledger entries that name an artifact; all stages of all runs are scanned once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def entries(self, digest: str) -> list[dict[str, Any]]:
        """Return the ledger entries of all stages, of any run, that name an artifact, without damaged ones."""
        entries = self._ledger.read(self._keys.get(digest[:SHORT], [])).values()
        return sorted(entries, key=lambda entry: (entry["started"], entry["run_id"], entry["stage"]))

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        """Prefix of a digest -> keys of the entries that may name it; reading them shows whether they do."""
        keys: dict[str, list[str]] = {}
        for key, digests in _named(self._ledger):
            for digest in dict.fromkeys(digests):
                keys.setdefault(digest, []).append(key)
        return keys


def _named(ledger: Ledger) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the key of each stage's entry and the prefixes of the digests in it."""
    store = ledger.store
    if "://" not in store.uri:
        for key in store.keys("ledger/"):
            if "/stages/" in key:
                yield key, digests_in(store.blobs.read(key) or b"")
        return
    for run_id, run in indexed_runs(ledger).items():
        for stage, digests in run["stages"].items():
            yield stage_key(run_id, stage), digests


def digests_in(data: bytes) -> list[str]:
    """Return the prefixes of all digests that a sealed record names."""
    return [digest[:SHORT].decode() for digest in _DIGEST.findall(data)]
