"""Records: JSON objects that carry their own SHA-256, so that a flipped byte is detected."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.contract.artifacts import canonical_json
from components.runtime.store.blobs import MADE_ANEW

HEAD, MIDDLE, TAIL = b'{"sha256":"', b'","value":', b"}\n"
DIGEST_LENGTH = 64
VALUE_AT = len(HEAD) + DIGEST_LENGTH + len(MIDDLE)
"""Offset of the value in what `seal` writes: its bytes are hashed in place, without re-encoding."""
KEPT_ONCE = {"ledger", "models", "spool", "approvals"}
"""First key segments of records that no stage makes anew."""
HEALED = "posttrain verify --repair sets it aside, and makes it again from its copies where there are any."


def advice(key: str) -> str:
    """Return what to do about a damaged record."""
    return HEALED if key.partition("/")[0] in KEPT_ONCE else MADE_ANEW


def seal(value: dict[str, Any]) -> bytes:
    """Return the bytes to store for `value`: {"sha256": of its canonical JSON, "value": value}."""
    digest = hashlib.sha256(canonical_json(value)).hexdigest()
    return canonical_json({"sha256": digest, "value": value}) + b"\n"


def unseal(data: bytes) -> dict[str, Any] | None:
    """Return the value that `data` seals, or None if one byte differs from what `seal` wrote."""
    digest, value = data[len(HEAD) : len(HEAD) + DIGEST_LENGTH], data[VALUE_AT : -len(TAIL)]
    if data[:VALUE_AT] != HEAD + digest + MIDDLE or not data.endswith(TAIL):
        return None
    if hashlib.sha256(value).hexdigest().encode() != digest:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
