"""The garbage collector: deletes what no run, registered model, pin or running job reaches.

Order: records of selected runs, then unreachable actions, checkpoints and artifacts, then operators' files that
nothing names, then leftovers of interrupted work. A kill between any two deletions leaves an intact store, and the next
collection continues: a run's run.json is deleted last, an artifact's manifest first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.runtime.checkpoints.kept import KEPT, kept_prefix
from components.runtime.ledger.code_trees import trees_in_use
from components.runtime.ledger.operator_code import code_key
from components.runtime.lineage.heal import read_or_copy
from components.runtime.store import StoreLocked
from components.runtime.store.answers import answers_prefix, drop_answers
from components.runtime.store.collecting import LOCK, collect_record, drop_marks
from components.runtime.store.quarantine import QUARANTINE
from components.runtime.upkeep import garbage
from components.runtime.upkeep.inventory import take_inventory
from components.runtime.upkeep.operator_files import unnamed_files
from components.runtime.upkeep.reach import DIGEST, reached
from components.runtime.upkeep.selection import Rules, Selection, select_runs

if TYPE_CHECKING:
    from components.runtime.store import Store
    from components.runtime.store.blobs import Blob

KINDS = ("runs", "actions", "partial checkpoints", "kept checkpoints", "artifacts", "operator files", "leftovers")
THREADS = 8
BATCH = 200
"""Artifacts deleted between two checks for new uses."""
LOCK_WAIT_SECONDS = 60.0
SAYS_WHAT_IS_USED = ("ledger/", "spool/", "models/", "pins/", f"{KEPT}/")


@dataclass
class Heap:
    """Garbage of one kind: unit (a run, a fingerprint, a digest ...) -> its blobs."""

    units: dict[str, list[Blob]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the bytes of all blobs."""
        return sum(blob.size for blobs in self.units.values() for blob in blobs)


@dataclass
class Collection:
    """What a collection would delete, or has deleted."""

    heaps: dict[str, Heap]
    """Kind (KINDS) -> garbage."""
    selection: Selection
    known: set[str]
    """Keys of records that define what is used, at the time of this search."""
    set_aside: int = 0
    """Bytes in quarantine, which no collection touches."""
    freed: dict[str, int] = field(default_factory=dict)
    """Kind -> bytes that were deleted."""
    spared: int = 0
    """Units that came into use in the meantime."""


@contextmanager
def only_collector(store: Store) -> Iterator[None]:
    """Hold the store's collector lock; raise InputError if another process is collecting."""
    lock = store.lock(LOCK, wait_seconds=LOCK_WAIT_SECONDS)
    try:
        lock.__enter__()
    except StoreLocked as error:
        raise InputError(f"a collection is going on already: {error}") from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def find_garbage(store: Store, rules: Rules, registered: Iterable[str] = ()) -> Collection:
    """Return unreachable data by kind; nothing is changed. `registered` is from `registered_digests`."""
    known = _saying(store)  # before anything is read: later records are checked again
    inventory = take_inventory(store)
    selection = select_runs(store, inventory, rules)
    reach = reached(store, inventory, selection.gone, registered)
    reach.digests |= trees_in_use(store)  # they go after the records that name them, with the next collection
    artifacts = garbage.artifacts(store, reach, rules.grace_seconds)
    unnamed = unnamed_files(store, inventory, reach, selection.gone, artifacts)
    heaps = {
        "runs": Heap(garbage.runs(store, inventory, selection, reach, rules.grace_seconds)),
        "actions": Heap(garbage.actions(store, reach, rules.grace_seconds)),
        "partial checkpoints": Heap(garbage.partials(store, inventory, reach, rules.grace_seconds)),
        "kept checkpoints": Heap(garbage.kept(store, inventory, reach, rules.grace_seconds)),
        "artifacts": Heap(artifacts),
        "operator files": Heap(garbage.operator_files(store, unnamed, rules.grace_seconds)),
        "leftovers": Heap(garbage.leftovers(store, rules.grace_seconds)),
    }
    aside = sum(blob.size for blob in store.blobs.list(f"{QUARANTINE}/"))
    return Collection(heaps, selection, known, aside)


def delete_garbage(store: Store, found: Collection, rules: Rules) -> None:
    """Delete what `find_garbage` found, except what came into use since; record in `found` what was freed and spared.

    The caller holds `only_collector` since before the search.
    """
    drop_marks(store.blobs)
    for kind, delete in DELETE.items():
        heap, freed = found.heaps[kind], 0
        for unit, blobs in heap.units.items():
            gone = delete(store, unit, blobs, rules.grace_seconds)
            freed += sum(blob.size for blob in blobs) if gone else 0
            found.spared += not gone
        found.freed[kind] = freed
    before = found.spared
    found.freed["artifacts"] = _delete_artifacts(store, found, rules.grace_seconds)
    unnamed = set(found.heaps["operator files"].units)
    files = unnamed if found.spared == before else set()  # the rows of an artifact that stays may name them
    found.spared += len(unnamed - files)
    found.freed["operator files"] = _delete_operator_files(store, files, found, rules.grace_seconds)
    store.sweep(min_age_seconds=rules.grace_seconds)
    found.freed["leftovers"] = found.heaps["leftovers"].size


def _saying(store: Store) -> set[str]:
    return {key for first in SAYS_WHAT_IS_USED for key in store.keys(first)}


def _used_since(store: Store, known: set[str]) -> set[str]:
    """Return the artifacts that new records name; their keys are added to `known`."""
    fresh = _saying(store) - known
    known |= fresh
    found: set[str] = set()
    for key in fresh:
        found.update(DIGEST.findall(f"{key} {read_or_copy(store, key)}"))  # also finds other digests, which is harmless
    return found


def _delete_run(store: Store, run_id: str, blobs: list[Blob], grace_seconds: float) -> bool:
    """Delete a run's records, run.json last; False if an engine works on it, or just did."""
    try:
        with store.lock(f"run-{run_id}", wait_seconds=0):
            if _came_to_life(store, [f"ledger/{run_id}/", f"spool/{run_id}/"], grace_seconds):
                return False
            first, last = [], []
            for blob in blobs:
                (last if blob.key == f"ledger/{run_id}/run.json" else first).append(blob.key)
            store.blobs.delete(first)
            store.blobs.delete(last)
    except StoreLocked:
        return False
    return True


def _delete_action(store: Store, mark: str, blobs: list[Blob], grace_seconds: float) -> bool:
    """Delete an action, then its producer links; False if it was used since. At worst a cached result is lost."""
    if _came_to_life(store, [f"actions/{mark}.json"], grace_seconds):
        return False
    store.blobs.delete(sorted(blob.key for blob in blobs))
    return True


def _delete_partial(store: Store, mark: str, blobs: list[Blob], grace_seconds: float) -> bool:
    """Delete the partial checkpoints and answers of a fingerprint; False if a job works on it."""
    try:
        with store.lock(f"job-{mark}", wait_seconds=0):
            if _came_to_life(store, [f"partial/{mark}/", answers_prefix(mark)], grace_seconds):
                return False
            store.partials(mark).drop()
            drop_answers(store, mark)
    except StoreLocked:
        return False
    return True


def _delete_kept(store: Store, mark: str, blobs: list[Blob], grace_seconds: float) -> bool:
    """Delete the records of kept checkpoints, which go as artifacts then; False if a job works on the fingerprint."""
    try:
        with store.lock(f"job-{mark}", wait_seconds=0):
            if _came_to_life(store, [kept_prefix(mark)], grace_seconds):
                return False
            store.blobs.delete(sorted(blob.key for blob in blobs))
    except StoreLocked:
        return False
    return True


DELETE = {
    "runs": _delete_run,
    "actions": _delete_action,
    "partial checkpoints": _delete_partial,
    "kept checkpoints": _delete_kept,
}
"""Kind -> what deletes a unit of it, in this order; artifacts go after all records that name them."""


def _came_to_life(store: Store, prefixes: Iterable[str], grace_seconds: float) -> bool:
    now = time.time()
    return any(now - blob.stored < grace_seconds for prefix in prefixes for blob in store.blobs.list(prefix))


def _delete_artifacts(store: Store, found: Collection, grace_seconds: float) -> int:
    """Delete artifacts in parallel; return the bytes freed."""
    digests, freed = list(found.heaps["artifacts"].units), 0
    for start in range(0, len(digests), BATCH):
        used = _used_since(store, found.known)
        batch = [digest for digest in digests[start : start + BATCH] if digest not in used]
        with ThreadPoolExecutor(THREADS) as pool:
            sizes = list(pool.map(lambda digest: store.delete(digest, grace_seconds=grace_seconds), batch))
        freed += sum(size or 0 for size in sizes)
        found.spared += len(digests[start : start + BATCH]) - len(batch) + sizes.count(None)
    return freed


def _delete_operator_files(store: Store, files: set[str], found: Collection, grace_seconds: float) -> int:
    """Delete operators' files, except those that came into use since; return the bytes freed."""
    used, freed = _used_since(store, found.known) if files else set(), 0
    for digest in sorted(files):
        size = None if digest in used else collect_record(store.blobs, code_key(digest), grace_seconds)
        freed += size or 0
        found.spared += size is None
    return freed
