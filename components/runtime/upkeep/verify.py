"""Verification: every byte of a store, or of what one run depends on, is read and compared with its digest.

Repair moves damaged data to quarantine/ with the reason. A record that has copies is rebuilt from them; a stage's
outputs are made again by the next run; anything else is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact
from components.runtime.costs.attempts import is_attempt
from components.runtime.ledger.records import action_key, producer_key
from components.runtime.lineage.heal import heal, read_or_copy
from components.runtime.lineage.spool import NO_FINGERPRINT
from components.runtime.store.keys import DIGEST, is_record
from components.runtime.store.looks import look_at
from components.runtime.store.partial_upkeep import check_partial
from components.runtime.store.partials import trees_of
from components.runtime.upkeep.inventory import OF_A_RUN
from components.runtime.upkeep.reach import digests_of

if TYPE_CHECKING:
    from components.runtime.store import Store

READERS = 8
Progress = Callable[[int, int], None]
DROPPED = {
    "spool": "set aside; MLflow goes without it",
    "approvals": "set aside; the stage asks again",
    "delivered": "set aside; what MLflow has is looked up again",
    "pins": "set aside; pin it again",
    "triggers": "set aside; whoever watches starts a run of what is there",
    "ledger": "set aside; a rerun of the recipe writes it again",
    "models": "set aside; the model stays, and its place in the registry is lost",
}
OF_AN_ATTEMPT = "set aside; the cost of its run is without this attempt from now on"


@dataclass(frozen=True)
class Damage:
    """One damaged thing."""

    kind: str
    """artifact, partial checkpoint or record."""
    key: str
    reason: str
    outcome: str = ""
    """Result of the repair."""


@dataclass(frozen=True)
class Verified:
    """Result of a verification."""

    artifacts: int
    partials: int
    records: int
    size: int
    """Bytes of artifacts and partial checkpoints."""
    damage: list[Damage]
    missing: list[str]
    """Missing artifacts that a run names: collected, or set aside before."""


def verify(
    store: Store, run_id: str | None = None, *, repair: bool = False, progress: Progress = lambda done, total: None
) -> Verified:
    """Read every byte of a store, or of what a run used and made; with `repair`, set damaged data aside."""
    records = sorted(_records_of(store, run_id) if run_id else _all_records(store))
    with ThreadPoolExecutor(READERS) as readers:
        bad = [item for item in readers.map(lambda key: _check_record(store, key), records) if item]
        if repair:
            bad = [_repair_record(store, item) for item in bad]
        digests, partials = _trees(store, run_id, records)
        trees = [("artifact", f"objects/{digest}", digest) for digest in digests]
        trees += [("partial checkpoint", tree, tree.rpartition("-")[2]) for tree in partials]
        size, missing = 0, []
        checked = readers.map(lambda tree: _check_tree(store, *tree), trees)
        for number, (tree, (read, found)) in enumerate(zip(trees, checked, strict=True)):
            size += read or 0
            if found:
                bad.append(_repair_tree(store, found) if repair else found)
            elif read is None and run_id:
                missing.append(tree[2])
            progress(number + 1, len(trees))
    return Verified(len(digests), len(partials), len(records), size, bad, missing)


def _check_record(store: Store, key: str) -> Damage | None:
    try:
        store.get(key)
    except CorruptArtifact as error:
        return Damage("record", key, str(error).partition(": ")[2].partition(". ")[0])
    return None


def _check_tree(store: Store, kind: str, prefix: str, digest: str) -> tuple[int | None, Damage | None]:
    """Return the bytes that were read, None if there is no whole tree, and the damage."""
    if kind == "artifact":
        seen = look_at(store.blobs, prefix, digest, every_byte=True)
        size, problem = (seen.manifest.size if seen.manifest else None), seen.damage
    else:
        size, problem = check_partial(store.blobs, prefix, digest)
    return size, Damage(kind, prefix, problem) if problem else None


def _repair_record(store: Store, item: Damage) -> Damage:
    quiet: Callable[[str], None] = lambda text: None  # noqa: E731 - the table reports it
    healed = heal(store, item.key, item.reason, quiet)
    outcome = DROPPED.get(item.key.partition("/")[0], "set aside; the next run rebuilds it")
    outcome = OF_AN_ATTEMPT if is_attempt(item.key) else outcome
    return Damage(item.kind, item.key, item.reason, "set aside, and made again from its copies" if healed else outcome)


def _repair_tree(store: Store, item: Damage) -> Damage:
    done = store.set_aside(item.key, item.reason, lambda text: None)
    if not done:
        return Damage(item.kind, item.key, item.reason, "could not be set aside: this account may not remove it")
    if item.kind != "artifact":
        return Damage(item.kind, item.key, item.reason, "set aside; the stage goes on from the one before it")
    return Damage(item.kind, item.key, item.reason, _how_made(store, item.key.rpartition("/")[2]))


def _how_made(store: Store, digest: str) -> str:
    """Return as text how an artifact is made again."""
    for key in store.keys(f"producers/{digest}/"):
        action = read_or_copy(store, action_key(key.rpartition("/")[2].removesuffix(".json")), lambda text: None)
        if action:
            return f"set aside; the next run rebuilds it ({action['stage']} of {action['run_id']})"
    return "set aside; no stage made it: bring it in again"


def _all_records(store: Store) -> Iterator[str]:
    return (blob.key for blob in store.blobs.list("") if is_record(blob.key))


def _records_of(store: Store, run_id: str) -> Iterator[str]:
    """Yield the records of a run, and those of the actions that it depends on."""
    for first in OF_A_RUN:
        yield from store.keys(f"{first}/{run_id}/")
    for entry in _entries(store, run_id):
        if mark := entry.get("fingerprint"):
            keys = [action_key(mark), *(producer_key(item["digest"], mark) for item in entry["outputs"].values())]
            yield from (key for key in keys if any(blob.key == key for blob in store.blobs.list(key)))


def _entries(store: Store, run_id: str) -> Iterator[dict[str, Any]]:
    for key in store.keys(f"ledger/{run_id}/stages/"):
        if record := read_or_copy(store, key, lambda text: None):
            yield record


def _trees(store: Store, run_id: str | None, records: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the digests and the prefixes of partial checkpoints to read."""
    if run_id is None:
        names = {blob.key.split("/")[1] for blob in store.blobs.list("objects/")}
        partials = trees_of(store.blobs.keys("partial/"))
        return sorted(filter(DIGEST.match, names)), sorted(partials)
    digests = {digest for entry in _entries(store, run_id) for digest in digests_of(entry)}
    reports = f"spool/{run_id}/reports/"
    digests |= {key.removeprefix(reports).removesuffix(".json") for key in records if key.startswith(reports)}
    marks = {key.split("/")[4] for key in records if key.startswith(f"spool/{run_id}/stages/")} - {NO_FINGERPRINT}
    found = trees_of(key for mark in marks for key in store.blobs.keys(f"partial/{mark}/"))
    return sorted(digests), sorted(found)
