"""The users' files with operators, in the store by their digest: rows that name a verifier find its file here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from components.contract.errors import CorruptArtifact
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode

if TYPE_CHECKING:
    from components.runtime.store import Store


def code_key(digest: str) -> str:
    """Return the key of an operator file's record."""
    return f"code/{digest}.json"


def keep_code(store: Store, codes: Iterable[OperatorCode]) -> None:
    """Put operator files into the store, each once."""
    for code in codes:
        store.put(code_key(code.digest), code.model_dump(mode="json"))


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
