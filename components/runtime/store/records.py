"""Records: JSON objects that carry their own SHA-256, so that a flipped byte is seen and named."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.contract.artifacts import canonical_json


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
