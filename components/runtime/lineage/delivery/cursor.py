"""Cursor: which events of a run a tracking server already has.

Losing it does no harm, since every write to MLflow is idempotent: it only saves repeated writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact
from components.runtime.lineage.delivery.target import database_path, without_credentials

if TYPE_CHECKING:
    from components.runtime.store import Store


@dataclass
class Cursor:
    """The events of one run that one tracking server has, and those that it refused."""

    store: Store
    key: str
    tracking_uri: str
    delivered: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    """Key -> reason; tried again by every later delivery."""
    places: dict[str, str] = field(default_factory=dict)
    """Where the run is in MLflow: "experiment", "run" and "stage:<name>", each with MLflow's id."""
    problem: str | None = None
    """Why the last delivery left events in the spool: the server was unreachable or denied access."""

    @classmethod
    def load(cls, store: Store, run_id: str, tracking_uri: str) -> Cursor:
        """Return the recorded cursor; nothing counts as delivered to a database file that does not exist."""
        public = without_credentials(tracking_uri)
        target = hashlib.sha256(public.encode()).hexdigest()[:16]
        cursor = cls(store, f"delivered/{run_id}/{target}.json", public)
        database = database_path(tracking_uri)
        record = None if database and not database.exists() else _read(store, cursor.key)
        if record:
            cursor.delivered = set(record["delivered"])
            cursor.refused, cursor.problem = record["refused"], record["problem"]
            cursor.places = record.get("places", {})
        return cursor

    def pending(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that are not delivered, in the order given."""
        return [key for key in keys if key not in self.delivered]

    def save(self) -> None:
        """Record the state; the last writer wins, and only the holder of the run's delivery lock writes."""
        record = {
            "tracking_uri": self.tracking_uri,
            "delivered": sorted(self.delivered),
            "refused": self.refused,
            "places": self.places,
            "problem": self.problem,
        }
        self.store.put(self.key, record, overwrite=True)


def _read(store: Store, key: str) -> dict[str, Any] | None:
    """Return the record; a damaged one counts as none, and the next save replaces it."""
    try:
        return store.get(key)
    except CorruptArtifact:
        return None
