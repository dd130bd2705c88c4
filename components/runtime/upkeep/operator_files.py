"""Which operators' files of the store are still named: by a run, or by the rows of an artifact."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType
from components.contract.errors import PosttrainError
from components.runtime.closure.rows import HOLDS_ROWS, named_verifiers
from components.runtime.ledger.operator_code import ROOT
from components.runtime.upkeep.inventory import Inventory
from components.runtime.upkeep.reach import DIGEST, Reach, certain

if TYPE_CHECKING:
    from components.runtime.store import Store


def unnamed_files(
    store: Store, inventory: Inventory, reach: Reach, gone: Collection[str], leaving: Collection[str]
) -> set[str]:
    """Return the digests of operators' files that nothing names if the runs `gone` and artifacts `leaving` go.

    Runs name them in their parameters, and rows in their verifiers. The rows of an artifact are read where no record
    tells their verifiers; if they cannot be read, every file stays.
    """
    found = {key.removeprefix(f"{ROOT}/").removesuffix(".json") for key in store.keys(f"{ROOT}/")}
    if found:
        found -= _named_by_runs(store, inventory, reach, set(gone))
    return found - _named_by_rows(store, inventory, set(leaving), found) if found else found


def _named_by_runs(store: Store, inventory: Inventory, reach: Reach, gone: set[str]) -> set[str]:
    kept = (
        record for key, record in inventory.records.items() if key in reach.records or key.split("/")[1] not in gone
    )
    found = {digest for record in kept for digest in DIGEST.findall(str(record))}
    for item in inventory.started:
        if item.run_id not in gone and item.stage not in inventory.stages(item.run_id):
            event = certain(store, f"spool/{item.run_id}/stages/{item.stage}/{item.fingerprint}/started.json")
            found.update(DIGEST.findall(str(event)))
    return found


def _named_by_rows(store: Store, inventory: Inventory, leaving: set[str], asked: set[str]) -> set[str]:
    outputs = (output for entry in inventory.all_stages() for output in entry["outputs"].values())
    told = {item["digest"]: names for item in outputs if (names := item.get("verifiers")) is not None}
    found: set[str] = set()
    for digest in store.digests():
        if digest in leaving or asked <= found:
            continue
        names = told.get(digest, ()) if digest in told else _verifiers_of(store, digest)
        if names is None:
            return asked
        found.update(part for name in names for part in DIGEST.findall(name))
    return found


def _verifiers_of(store: Store, digest: str) -> list[str] | None:
    """Return the verifiers that an artifact's rows name, none of one without rows; None if they cannot be told."""
    try:
        kind = ArtifactType(store.manifest(digest).type)
        return named_verifiers(store.fetch(digest)) if kind in HOLDS_ROWS else []
    except PosttrainError:  # damaged, or gone meanwhile
        return None
