"""An input on S3: one object, or all below a prefix, brought to a folder. Names of keys are a stranger's words."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contract.artifacts import CHUNK_BYTES
from components.contract.errors import InputError
from components.runtime.store.s3_calls import MISSING, TAKEN, DamagedBody, S3Calls, code_of

SINGLE = "rows.jsonl"
"""What one object that is named without a folder becomes."""
PART_BYTES = 64 << 20
MAX_NAME_BYTES = 255
"""Of a file or folder, on the file systems in use."""
SHOWN_OF_A_KEY = 120
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def download_input(uri: str, folder: Path) -> None:
    """Bring what s3://bucket/key names into `folder`: the object of this key, or every object below "key/".

    Raises InputError when nothing is there, when the key is both an object and a folder, and for a key whose name
    cannot be a file's below `folder`; StoreUnavailable when the bucket cannot be read.
    """
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    calls = S3Calls(bucket, uri, what="input")
    for key, (relative, size) in _files(uri, _objects(calls, path), path).items():
        _download(calls, uri, key, size, folder / relative)


def split_keys(keys: Iterable[str], path: str) -> dict[str, str]:
    """Return key -> file below the artifact's folder, for the keys that `path`, a key or a folder, means.

    "m" means the object "m" or the objects below "m/", and never "m2/x"; "m/" means the folder alone. Raises ValueError
    with what is wrong.
    """
    name = path.strip("/")
    found: dict[str, str] = {}
    single = False
    for key in keys:
        if key == name and name and not path.endswith("/"):
            found[key], single = SINGLE, True
        elif not name or key.startswith(f"{name}/"):
            relative = key[len(name) + 1 :] if name else key
            if relative and not relative.endswith("/"):  # else the mark that consoles make for an empty folder
                found[key] = _file(key, relative)
    if single and len(found) > 1:
        raise ValueError(
            f"there is an object {_shown(name)} and a folder of that name; end the URI with / for the folder"
        )
    _refuse_clashes(found)
    return found


def _file(key: str, relative: str) -> str:
    for part in relative.split("/"):
        if part in ("", ".", "..") or _FORBIDDEN.search(part):
            raise ValueError(
                f"key {_shown(key)} cannot be a file's name: {_shown(part)} is no name of a file or folder"
            )
        if len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            raise ValueError(f"key {_shown(key)} cannot be a file's name: a part has more than {MAX_NAME_BYTES} bytes")
    return relative


def _refuse_clashes(found: dict[str, str]) -> None:
    files = set(found.values())
    for relative in files:
        parts = relative.split("/")
        for end in range(1, len(parts)):
            if (above := "/".join(parts[:end])) in files:
                raise ValueError(f"{_shown(above)} is an object and, by {_shown(relative)}, a folder too")


def _objects(calls: S3Calls, path: str) -> dict[str, int]:
    """Return key -> size of what `path` may mean, be it an object or a folder."""
    name = path.strip("/")
    found = _listed(calls, f"{name}/" if name else "")
    if name and not path.endswith("/"):
        found |= _listed(calls, name, most=1)  # the object of this very name is the first of all that begin so
    return found


def _listed(calls: S3Calls, prefix: str, most: int | None = None) -> dict[str, int]:
    request: dict[str, Any] = {"Bucket": calls.bucket, "Prefix": prefix, **({"MaxKeys": most} if most else {})}
    found: dict[str, int] = {}
    while True:
        page = calls.run(lambda client: client.list_objects_v2(**request))
        found |= {item["Key"]: item["Size"] for item in page.get("Contents", [])}
        if most or not page.get("IsTruncated"):
            return found
        request["ContinuationToken"] = page["NextContinuationToken"]


def _files(uri: str, objects: dict[str, int], path: str) -> dict[str, tuple[str, int]]:
    try:
        chosen = split_keys(objects, path)
    except ValueError as error:
        raise InputError(f"input {uri}: {error}") from None
    if not chosen:
        near = next((key for key in objects if not key.endswith("/")), None)
        hint = f" (there is {_shown(near)})" if near else ""
        raise InputError(f"input {uri}: nothing is stored there{hint}")
    return {key: (relative, objects[key]) for key, relative in chosen.items()}


def _download(calls: S3Calls, uri: str, key: str, size: int, target: Path) -> None:
    from botocore.exceptions import ClientError

    target.parent.mkdir(parents=True, exist_ok=True)
    large = size > PART_BYTES

    def get(client: Any) -> None:
        if large:
            client.download_file(calls.bucket, key, str(target))
        else:
            body = client.get_object(Bucket=calls.bucket, Key=key, ChecksumMode="ENABLED")["Body"]
            with target.open("wb") as stream:
                shutil.copyfileobj(body, stream, CHUNK_BYTES)
        if target.stat().st_size != size:
            raise DamagedBody(f"{_shown(key)} has {target.stat().st_size} bytes instead of {size}")

    try:
        calls.run(get, in_parts=large)
    except ClientError as error:
        if code_of(error) not in MISSING | TAKEN:
            raise
        raise InputError(f"input {uri}: {_shown(key)} was removed or replaced while it was read; run again") from error
    except DamagedBody as error:
        raise InputError(f"input {uri}: {error}: it did not arrive whole, or is being replaced; run again") from error


def _shown(text: str) -> str:
    return ascii(text if len(text) <= SHOWN_OF_A_KEY else f"{text[:SHOWN_OF_A_KEY]}...")
