"""Ed25519 keys of the user's, from files in PEM or OpenSSH format."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PASSPHRASE = "POSTTRAIN_KEY_PASSPHRASE"
MAX_BYTES = 1 << 16
HOW = "make one by: openssl genpkey -algorithm ed25519 -out key.pem"


def private_key(path: str) -> Ed25519PrivateKey:
    """Return the private key in a file; raise a one-line InputError if it cannot be read, or is of another kind."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = _read(path)
    load = serialization.load_ssh_private_key if b"OPENSSH" in data else serialization.load_pem_private_key
    password = None
    try:
        try:
            key = load(data, None)
        except TypeError:  # it is encrypted
            password = os.environ.get(PASSPHRASE)
            if not password:
                raise InputError(f"key {path}: it is encrypted; set {PASSPHRASE} to its passphrase") from None
            key = load(data, password.encode())
    except UnsupportedAlgorithm as error:
        raise InputError(f"key {path}: cannot be read here: {error}") from error
    except InputError:
        raise
    except ValueError as error:
        if password:
            raise InputError(f"key {path}: {PASSPHRASE} is not its passphrase, or the file is damaged") from error
        raise InputError(f"key {path}: no private key in PEM or OpenSSH format; {HOW}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"key {path}: {type(key).__name__.lstrip('_')} is no ed25519 key; {HOW}")
    return key


def public_key(path: str) -> Ed25519PublicKey:
    """Return the public key in a file, which may also hold the private one; raise InputError as `private_key` does."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    data = _read(path)
    if b"PRIVATE KEY" in data:
        return private_key(path).public_key()
    is_ssh = data.lstrip().startswith(b"ssh-")
    load = serialization.load_ssh_public_key if is_ssh else serialization.load_pem_public_key
    try:
        key = load(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"key {path}: no public key in PEM or OpenSSH format") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"key {path}: {type(key).__name__.lstrip('_')} is no ed25519 key")
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """Return what identifies a key: the SHA-256 hex of its DER encoding."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _read(path: str) -> bytes:
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InputError(f"key {path}: {error.strerror or error}; {HOW}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"key {path}: no key has {len(data):,} bytes")
    return data
