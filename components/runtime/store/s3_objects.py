"""Objects of a bucket that anyone may have written: listed, checked and downloaded through the client of S3Calls.

The store, inputs and sources download objects through this module. Keys are untrusted.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import CHUNK_BYTES, canonical_json
from components.runtime.store.s3_calls import MISSING, DamagedBody, S3Calls, code_of
from components.runtime.store.s3_listing import list_pages

if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig

PART_BYTES = 64 << 20
"""Larger files are transferred in concurrent parts of this size; smaller ones in one request each."""
COPY_BYTES = 5 << 30
"""Larger objects cannot be copied in one request."""
MAX_NAME_BYTES = 255
"""Longest name of a file or folder on the file systems in use."""
SHOWN_OF_A_KEY = 120
MD5_DIGITS = 32
NO_MD5 = ("aws:kms", "aws:kms:dsse")
"""Encryptions under which an ETag looks like an MD5 but is not one."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def object_sizes(calls: S3Calls, prefix: str, *, first: bool = False) -> dict[str, int]:
    """Return key -> size in bytes of all objects whose keys start with `prefix`, or of only the first."""
    return {key: item["Size"] for key, item in _listed(calls, prefix, first=first).items()}


def object_tags(calls: S3Calls, path: str) -> dict[str, str]:
    """Return key -> size and ETag of the object `path` and of the objects below it as a folder; consoles' markers for
    empty folders are left out. A path that ends in / is the folder alone."""
    name = path.strip("/")
    found = _listed(calls, f"{name}/" if name else "")
    if name and not path.endswith("/"):
        found |= {key: item for key, item in _listed(calls, name, first=True).items() if key == name}
    return {key: f"{item['Size']} {item['ETag']}" for key, item in found.items() if not key.endswith("/")}


def objects_digest(uri: str) -> str:
    """Return the SHA-256 hex of names, sizes and ETags: of the object s3://bucket/key, or of all below s3://bucket/key/.

    Raises StoreUnavailable if the bucket cannot be read.
    """
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    calls = S3Calls(bucket, uri, what="source")
    tags = object_tags(calls, path) if path.endswith("/") else _tag(calls, path.lstrip("/"))
    return hashlib.sha256(canonical_json(tags)).hexdigest()


def _tag(calls: S3Calls, key: str) -> dict[str, str]:
    """Return the tag of one object, which whoever may read it may ask for; nothing for a missing one."""
    from botocore.exceptions import ClientError

    try:
        found = calls.run(lambda client: client.head_object(Bucket=calls.bucket, Key=key))
    except ClientError as error:
        if code_of(error) not in MISSING:
            raise
        return {}
    return {key: f"{found['ContentLength']} {found['ETag']}"}


def _listed(calls: S3Calls, prefix: str, *, first: bool = False) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for page in list_pages(calls, prefix, **({"MaxKeys": 1} if first else {})):
        found |= {item["Key"]: item for item in page.get("Contents", [])}
        if first:
            break
    return found


def check_names(key: str, path: str) -> str:
    """Return `path`, a part of `key`; raise ValueError if one of its parts cannot name a file or folder."""
    for name in path.split("/"):
        if name in ("", ".", "..") or _FORBIDDEN.search(name):
            what = f"{shown_key(name)} is no name of a file or folder"
        elif len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            what = f"a part has more than {MAX_NAME_BYTES} bytes"
        else:
            continue
        raise ValueError(f"key {shown_key(key)} cannot be a file's name: {what}")
    return path


def download(calls: S3Calls, key: str, target: Path, size: int | None = None) -> None:
    """Download an object to a file, checked by its size (`size`, if known) and by its MD5, if the server has one.

    Raises DamagedBody if the bytes remain wrong, StoreUnavailable, and ClientError for a missing or replaced object.
    """
    large = size is not None and size > PART_BYTES

    def get(client: Any) -> None:
        answer = fetch_object(client, {"Bucket": calls.bucket, "Key": key}, target, in_parts=large)
        expected = answer["ContentLength"] if size is None else size
        if (found := target.stat().st_size) != expected:
            raise DamagedBody(f"{shown_key(key)} has {found} bytes instead of {expected}")
        _check_md5(key, target, answer)

    target.parent.mkdir(parents=True, exist_ok=True)
    calls.run(get, in_parts=large)


def fetch_object(client: Any, source: dict[str, str], target: Path, *, in_parts: bool) -> dict[str, Any]:
    """Write the object at {"Bucket", "Key"} to a file, in concurrent parts or in one request.

    Returns the response to the one request; empty for parts.
    """
    if in_parts:
        client.download_file(**source, Filename=str(target), Config=transfer_config())
        return {}
    answer: dict[str, Any] = client.get_object(**source, ChecksumMode="ENABLED")
    with target.open("wb") as stream:
        shutil.copyfileobj(answer["Body"], stream, CHUNK_BYTES)
    return answer


def _check_md5(key: str, target: Path, answer: dict[str, Any]) -> None:
    tag = str(answer.get("ETag", "")).strip('"')
    if len(tag) != MD5_DIGITS or answer.get("ServerSideEncryption") in NO_MD5 or "SSECustomerAlgorithm" in answer:
        return
    with target.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != tag:
        raise DamagedBody(f"{shown_key(key)} has MD5 {found[:12]}... instead of {tag[:12]}...")


def transfer_config() -> TransferConfig:
    """Return the multipart settings for large files."""
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4)


def copy_config() -> TransferConfig:
    """Return the settings for copies on the server: in one request if possible (Google cannot copy in parts)."""
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(multipart_threshold=COPY_BYTES)


def shown_key(text: str) -> str:
    """Return a key in a form safe for messages: ASCII, quoted and short."""
    return ascii(text if len(text) <= SHOWN_OF_A_KEY else f"{text[:SHOWN_OF_A_KEY]}...")
