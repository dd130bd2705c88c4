"""Records: JSON objects that carry their own SHA-256, so that a flipped byte is seen and named."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.contract.artifacts import canonical_json
from components.runtime.store.blobs import MADE_ANEW

KEPT_ONCE = {
    "ledger": "Put a copy of it back, or delete it: what the run made stays, and only this record of it is lost.",
    "models": "Put a copy of it back, or delete it: the model stays, and only its place in the registry is lost.",
    "spool": "Put a copy of it back, or delete it: only MLflow, to which it was on its way, goes without it.",
}
"""First segment of a key -> what to do about damage to a record that no run makes anew."""


def advice(key: str) -> str:
    """Return what to do about a damaged record."""
    return KEPT_ONCE.get(key.partition("/")[0], MADE_ANEW)


def seal(value: dict[str, Any]) -> bytes:
    """Return the bytes to store for `value`: {"sha256": of its canonical JSON, "value": value}."""
    digest = hashlib.sha256(canonical_json(value)).hexdigest()
    return canonical_json({"sha256": digest, "value": value}) + b"\n"


def unseal(data: bytes) -> dict[str, Any] | None:
    """Return the value that `data` seals, or None if one byte differs from what `seal` wrote."""
    try:
        value = json.loads(data)["value"]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, dict) and seal(value) == data else None
