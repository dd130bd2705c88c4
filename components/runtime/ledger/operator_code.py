"""The users' files with operators, in the store by their digest: rows that name a verifier find its file here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from components.contract.errors import CorruptArtifact
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.runtime.store.collecting import wait_for_collector

if TYPE_CHECKING:
    from components.runtime.store import Store


ROOT = "code"


def code_key(digest: str) -> str:
    """Return the key of an operator file's record."""
    return f"{ROOT}/{digest}.json"


def keep_code(store: Store, codes: Iterable[OperatorCode]) -> None:
    """Put operator files into the store, each once; those that are there are touched, which delays their collection."""
    for code in codes:
        key, record = code_key(code.digest), code.model_dump(mode="json")
        while not store.put(key, record):
            if store.blobs.touch(key):
                wait_for_collector(store.blobs, key)
                if store.blobs.read(key) is not None:
                    break


def stored_code(store: Store, digest: str) -> OperatorCode | None:
    """Return an operator file from the store; None if there is none.

    Raises CorruptArtifact if its text is not that of the digest.
    """
    record = store.get(code_key(digest))
    if record is None:
        return None
    try:
        code = OperatorCode.model_validate(record)
    except ValidationError:
        code = None
    if code is None or code.digest != digest:
        raise CorruptArtifact(f"{store.uri}: {code_key(digest)} does not hold the operator's file of that digest")
    return code


def use_code(store: Store, codes: Iterable[OperatorCode] = ()) -> None:
    """Make a job's operator files known to this process, and those of its store, which are read when they are named."""
    library.keep(codes)
    library.look_in(lambda digest: stored_code(store, digest))
