"""An input on S3: one object, or all below a prefix, downloaded to a folder. Keys are untrusted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from components.contract.errors import InputError
from components.runtime.store.s3_calls import MISSING, TAKEN, DamagedBody, S3Calls, code_of
from components.runtime.store.s3_objects import check_names, download, object_sizes, shown_key

SINGLE = "rows.jsonl"
"""File name of a single object that is named without a folder."""


def download_input(uri: str, folder: Path) -> None:
    """Download what s3://bucket/key names into `folder`: the object with this key, or every object below "key/".

    Raises InputError if nothing is there, if the key is both an object and a folder, and for a key that cannot be a
    file name below `folder`; StoreUnavailable if the bucket cannot be read.
    """
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    calls = S3Calls(bucket, uri, what="input")
    for key, (relative, size) in _files(uri, _objects(calls, path), path).items():
        _download(calls, uri, key, size, folder / relative)


def split_keys(keys: Iterable[str], path: str) -> dict[str, str]:
    """Return key -> file below the artifact's folder, for the keys that `path`, a key or a folder, refers to.

    "m" means the object "m" or the objects below "m/", never "m2/x"; "m/" means the folder alone. Raises ValueError
    with the problem.
    """
    name = path.strip("/")
    found: dict[str, str] = {}
    single = False
    for key in keys:
        if key == name and name and not path.endswith("/"):
            found[key], single = SINGLE, True
        elif not name or key.startswith(f"{name}/"):
            relative = key[len(name) + 1 :] if name else key
            if relative and not relative.endswith("/"):  # else consoles' marker for an empty folder
                found[key] = check_names(key, relative)
    if single and len(found) > 1:
        raise ValueError(
            f"there is an object {shown_key(name)} and a folder of that name; end the URI with / for the folder"
        )
    _refuse_clashes(found)
    return found


def _refuse_clashes(found: dict[str, str]) -> None:
    files = set(found.values())
    for relative in files:
        parts = relative.split("/")
        for end in range(1, len(parts)):
            if (above := "/".join(parts[:end])) in files:
                raise ValueError(f"{shown_key(above)} is an object and, by {shown_key(relative)}, a folder too")


def _objects(calls: S3Calls, path: str) -> dict[str, int]:
    """Return key -> size of the objects that `path` may refer to, as an object or a folder."""
    name = path.strip("/")
    found = object_sizes(calls, f"{name}/" if name else "")
    if name and not path.endswith("/"):
        found |= object_sizes(calls, name, first=True)  # the object with exactly this name sorts first of its prefix
    return found


def _files(uri: str, objects: dict[str, int], path: str) -> dict[str, tuple[str, int]]:
    try:
        chosen = split_keys(objects, path)
    except ValueError as error:
        raise InputError(f"input {uri}: {error}") from None
    if not chosen:
        near = next((key for key in objects if not key.endswith("/")), None)
        hint = f" (there is {shown_key(near)})" if near else ""
        raise InputError(f"input {uri}: nothing is stored there{hint}")
    return {key: (relative, objects[key]) for key, relative in chosen.items()}


def _download(calls: S3Calls, uri: str, key: str, size: int, target: Path) -> None:
    from botocore.exceptions import ClientError

    try:
        download(calls, key, target, size)
    except ClientError as error:
        if code_of(error) not in MISSING | TAKEN:
            raise
        gone = f"input {uri}: {shown_key(key)} was removed or replaced while it was read; run again"
        raise InputError(gone) from error
    except DamagedBody as error:
        raise InputError(f"input {uri}: {error}: it did not arrive whole, or is being replaced; run again") from error
