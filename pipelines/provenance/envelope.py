"""DSSE envelopes of in-toto statements: signed with ed25519, and verified before anything in them is read.

The signature is of the pre-authentication encoding (secure-systems-lab/dsse, protocol 1.0): any DSSE verifier takes it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from pipelines.provenance.keys import key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


def sealed(statement: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the envelope of a statement, signed by `key`."""
    payload = canonical_json(statement)
    signature = key.sign(encoded(PAYLOAD_TYPE, payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }


def opened(text: str | bytes, key: Ed25519PublicKey) -> dict[str, Any]:
    """Return the statement in an envelope that `key` signed; raise InputError for any other text."""
    from cryptography.exceptions import InvalidSignature

    try:
        envelope = json.loads(text)
        kind, payload = str(envelope["payloadType"]), base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in envelope["signatures"]]
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise InputError("no DSSE envelope: expected payload, payloadType and signatures") from error
    for signature in signatures:
        try:
            key.verify(signature, encoded(kind, payload))
        except InvalidSignature:
            continue
        return _statement(kind, payload)
    raise InputError(f"key {key_id(key)[:12]} did not sign it, or it was changed since")


def _statement(kind: str, payload: bytes) -> dict[str, Any]:
    if kind != PAYLOAD_TYPE:
        raise InputError(f"payloadType {kind[:60]!r}, expected {PAYLOAD_TYPE}")
    try:
        statement = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise InputError("its payload is not JSON") from error
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT_TYPE:
        raise InputError("its payload is no in-toto statement of version 1")
    return statement


def encoded(kind: str, payload: bytes) -> bytes:
    """Return what is signed: the type and the payload, each with its length before it."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)
