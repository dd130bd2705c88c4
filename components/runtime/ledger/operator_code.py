"""The users' code with operators, in the store by its digest: rows that name a verifier find it here.

A file is a record with its text. Packages are a record that names their trees, and each tree is an artifact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from components.contract.errors import CorruptArtifact
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_files.library import UserCode
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import PackageCode
from components.runtime.store.collecting import wait_for_collector

if TYPE_CHECKING:
    from components.runtime.store import Store


ROOT = "code"


def code_key(digest: str) -> str:
    """Return the key of an operator file's record."""
    return f"{ROOT}/{digest}.json"


def keep_code(store: Store, codes: Iterable[UserCode]) -> None:
    """Put records of users' code into the store, each once; those that are there are touched: they stay longer."""
    for code in codes:
        key, record = code_key(code.digest), code.model_dump(mode="json")
        while not store.put(key, record):
            if store.blobs.touch(key):
                wait_for_collector(store.blobs, key)
                if store.blobs.read(key) is not None:
                    break


def stored_code(store: Store, digest: str) -> UserCode | None:
    """Return a user's code from the store; None if there is none.

    Raises CorruptArtifact if its text is not that of the digest.
    """
    record = store.get(code_key(digest))
    if record is None:
        return None
    try:
        code: UserCode | None = (PackageCode if "trees" in record else OperatorCode).model_validate(record)
    except ValidationError:
        code = None
    if code is None or code.digest != digest:
        raise CorruptArtifact(f"{store.uri}: {code_key(digest)} does not hold the operator's file of that digest")
    return code


def use_code(store: Store, codes: Iterable[UserCode] = ()) -> None:
    """Make a job's code known to this process, and that of its store, which is read when it is named."""
    library.keep(codes)
    contents.look_in(store.fetch_or_set_aside)
    library.look_in(lambda digest: stored_code(store, digest))
