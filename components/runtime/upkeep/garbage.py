"""Unreachable data of a store, by kind."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.runtime.checkpoints.kept import KEPT
from components.runtime.ledger.operator_code import ROOT
from components.runtime.lineage.heal import read_or_copy
from components.runtime.store.answers import ANSWERS
from components.runtime.store.trees import has_manifest
from components.runtime.upkeep.inventory import Inventory
from components.runtime.upkeep.reach import Reach
from components.runtime.upkeep.selection import Selection

if TYPE_CHECKING:
    from components.runtime.store import Store
    from components.runtime.store.blobs import Blob

Units = dict[str, list["Blob"]]


def runs(store: Store, inventory: Inventory, chosen: Selection, reach: Reach, grace_seconds: float) -> Units:
    """Return run -> its records to delete: of selected runs, and traces of runs that the ledger has lost."""
    traces = [run_id for run_id in inventory.run_ids if not inventory.keys(run_id, "ledger")]
    lost = [run for run in traces if _is_old(inventory.blobs[run], grace_seconds) and not inventory.is_at_work(run)]
    found: Units = {}
    for run_id in [*chosen.gone, *lost]:
        plan = f"plans/{inventory.entry(run_id).get('plan_digest')}.json"
        pointer = [blob for blob in store.blobs.list(plan) if (read_or_copy(store, plan) or {}).get("run_id") == run_id]
        found[run_id] = [blob for blob in [*pointer, *inventory.blobs[run_id]] if blob.key not in reach.records]
    return {run_id: blobs for run_id, blobs in found.items() if blobs}


def actions(store: Store, reach: Reach, grace_seconds: float) -> Units:
    """Return fingerprint -> its action and producer links."""
    found = _by_segment(store, "actions/", 1)
    for mark, blobs in _by_segment(store, "producers/", 2).items():
        found.setdefault(mark, []).extend(blobs)
    return {
        mark: blobs for mark, blobs in found.items() if mark not in reach.fingerprints and _is_old(blobs, grace_seconds)
    }


def partials(store: Store, inventory: Inventory, reach: Reach, grace_seconds: float) -> Units:
    """Return fingerprint -> its partial checkpoints and answers, for work that is done or that no run needs."""
    done = _by_segment(store, "actions/", 1)
    found = _by_segment(store, "partial/", 1)
    for mark, blobs in _by_segment(store, f"{ANSWERS}/", 1).items():
        found.setdefault(mark, []).extend(blobs)
    return {
        mark: blobs
        for mark, blobs in found.items()
        if (mark in done or mark not in reach.fingerprints)
        and f"job-{mark}" not in inventory.held
        and _is_old(blobs, grace_seconds)
    }


def kept(store: Store, inventory: Inventory, reach: Reach, grace_seconds: float) -> Units:
    """Return fingerprint -> the records of the checkpoints that its work kept, where no run has that work any more."""
    return {
        mark: blobs
        for mark, blobs in _by_segment(store, f"{KEPT}/", 1).items()
        if mark not in reach.worked_on and f"job-{mark}" not in inventory.held and _is_old(blobs, grace_seconds)
    }


def artifacts(store: Store, reach: Reach, grace_seconds: float) -> Units:
    """Return digest -> the files of a whole artifact."""
    return {
        digest: blobs
        for digest, blobs in _by_segment(store, "objects/", 1).items()
        if digest not in reach.digests and has_manifest(f"objects/{digest}", blobs) and _is_old(blobs, grace_seconds)
    }


def operator_files(store: Store, unnamed: Iterable[str], grace_seconds: float) -> Units:
    """Return digest -> the record of an operator's file that nothing names."""
    known, wanted = _by_segment(store, f"{ROOT}/", 1), set(unnamed)
    return {digest: blobs for digest, blobs in known.items() if digest in wanted and _is_old(blobs, grace_seconds)}


def leftovers(store: Store, grace_seconds: float) -> Units:
    """Return what interrupted work left behind."""
    trees, own = store.leftovers(grace_seconds)
    return trees | {blob.key: [blob] for blob in own}


def _is_old(blobs: Iterable[Blob], grace_seconds: float) -> bool:
    now = time.time()
    return all(now - blob.stored >= grace_seconds for blob in blobs)


def _by_segment(store: Store, prefix: str, segment: int) -> Units:
    found: Units = {}
    for blob in store.blobs.list(prefix):
        found.setdefault(blob.key.split("/")[segment].removesuffix(".json"), []).append(blob)
    return found
