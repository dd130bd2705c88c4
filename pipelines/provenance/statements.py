"""Statements of removals in the store, each under the run that was made for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "statements"


def keep_statement(store: Store, run_id: str, envelope: Mapping[str, Any]) -> None:
    """Keep a statement in the store, where `removals_of` finds it."""
    store.put(f"{ROOT}/{run_id}.json", dict(envelope), overwrite=True)


def rebuilds_without(store: Store, labels: Collection[str]) -> list[dict[str, str]]:
    """Return {"before", "after"} of the runs that were made again without sources of these labels.

    Statements that are damaged, or of another kind, are left out; who signed them is not checked here.
    """
    found = []
    for key in store.keys(f"{ROOT}/"):
        try:
            envelope = store.get(key) or {}
            about = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
            runs = {side: str(about["runs"][side]["id"]) for side in ("before", "after")}
            removed = {one["source"] for one in about["removed"]}
        except (CorruptArtifact, ValueError, KeyError, TypeError):
            continue
        found += [runs] if removed & set(labels) else []
    return found
