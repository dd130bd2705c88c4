"""Inventory: the collector's view of a store's ledger and spool, each listed and read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.spool import NO_FINGERPRINT

if TYPE_CHECKING:
    from components.runtime.store import Store
    from components.runtime.store.blobs import Blob

Record = dict[str, Any]
SKIPPED = ("/jobs/", "/failures/", "/notices/", "/attempts/")
"""Records of the ledger that reach nothing."""
OF_A_RUN = ("ledger", "spool", "delivered", "approvals")
"""First segments of keys whose second one is a run."""


@dataclass(frozen=True)
class Started:
    """A stage of a run that began to work on a fingerprint."""

    run_id: str
    stage: str
    fingerprint: str


@dataclass
class Inventory:
    """What a store holds about its runs."""

    records: dict[str, Record]
    """Ledger key -> record, of runs, ends and stages."""
    blobs: dict[str, list[Blob]]
    """Run -> all of its blobs, under any first segment."""
    held: set[str]
    """Names of held locks."""
    started: list[Started] = field(default_factory=list)

    @property
    def run_ids(self) -> list[str]:
        """Return the runs in the ledger, and those that left only other traces."""
        return sorted(self.blobs)

    def entry(self, run_id: str) -> Record:
        """Return a run's run.json; empty if it has none."""
        return self.records.get(f"ledger/{run_id}/run.json", {})

    def end(self, run_id: str) -> Record | None:
        """Return how a run ended, or None."""
        return self.records.get(f"ledger/{run_id}/end.json")

    def stages(self, run_id: str) -> dict[str, Record]:
        """Return the stages of a run that ended: name -> entry."""
        prefix = f"ledger/{run_id}/stages/"
        keys = (blob.key for blob in self.blobs[run_id] if blob.key.startswith(prefix))
        return {record["stage"]: record for key in keys if (record := self.records.get(key))}

    def alarms(self, run_id: str) -> list[Record]:
        """Return the records of a run's alarms."""
        prefix = f"ledger/{run_id}/alarms/"
        keys = (blob.key for blob in self.blobs[run_id] if blob.key.startswith(prefix))
        return [record for key in keys if (record := self.records.get(key))]

    def all_stages(self) -> Iterator[Record]:
        """Yield the entries of all stages of all runs."""
        yield from (record for key, record in self.records.items() if "/stages/" in key)

    def keys(self, run_id: str, prefix: str) -> list[str]:
        """Return the keys of a run below prefix/<run>/."""
        return [blob.key for blob in self.blobs[run_id] if blob.key.startswith(f"{prefix}/{run_id}/")]

    def last_activity(self, run_id: str) -> float:
        """Return the time of a run's last write, by the storage's clock (epoch seconds)."""
        return max(blob.stored for blob in self.blobs[run_id])

    def is_at_work(self, run_id: str) -> bool:
        """Return whether an engine holds the run, or a job one of its stages."""
        works = any(f"job-{item.fingerprint}" in self.held for item in self.started if item.run_id == run_id)
        return works or f"run-{run_id}" in self.held


def take_inventory(store: Store) -> Inventory:
    """Read the store's records of runs; raise InputError if one is damaged, since what it reaches is unknown."""
    ledger = Ledger(store)
    records = ledger.read(key for key in store.keys("ledger/") if not any(part in key for part in SKIPPED))
    if ledger.damaged:
        key, count = next(iter(ledger.damaged)), len(ledger.damaged)
        raise InputError(
            f"{count} damaged record{'s' if count > 1 else ''} in the ledger, such as {key}: what it reaches cannot be "
            "told, so nothing is collected; posttrain verify --repair first"
        )
    found = Inventory(records, {}, store.blobs.locks())
    for first in OF_A_RUN:
        for blob in store.blobs.list(f"{first}/"):
            parts = blob.key.split("/")
            found.blobs.setdefault(parts[1], []).append(blob)
            if first == "spool" and parts[2] == "stages" and parts[-1] == "started.json" and parts[4] != NO_FINGERPRINT:
                found.started.append(Started(parts[1], parts[3], parts[4]))
    for blob in store.blobs.list("sequence/"):
        run_id = blob.key.partition("-")[2].removesuffix(".json")
        found.blobs.setdefault(run_id, []).append(blob)
    return found
