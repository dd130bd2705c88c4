"""Objects of an S3 bucket, downloaded, verified, and then read like files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import field_validator

from components.contract.errors import InputError
from components.runtime.store.s3_advice import what_to_do
from components.tasks.source import SourceRequest, SourceRows
from components.tasks.tables import JSONL_SUFFIXES, PARQUET_SUFFIXES, FileConfig, open_files

SCHEME = "s3://"
MAX_ATTEMPTS = 8
MAX_NAME_BYTES = 255
SHOWN_OF_A_KEY = 120
CHUNK_BYTES = 1 << 20


class S3Config(FileConfig):
    """Which objects, and which of their columns hold what; `path` is s3://bucket/key, or a prefix ending in /."""

    @field_validator("path")
    @classmethod
    def _is_s3(cls, path: str) -> str:
        if not is_s3(path):
            raise ValueError(f"expected s3://bucket/key, found {path!r}")
        return path


def s3(request: SourceRequest, *, config: S3Config) -> SourceRows:
    """Read JSONL or Parquet objects. Endpoint and credentials come from the usual AWS environment variables."""
    return read_objects(request, config)


def is_s3(path: str) -> bool:
    """Return whether a path names an object or a prefix of a bucket. Raises InputError for half of such a name."""
    if not path.startswith(SCHEME):
        return False
    bucket, key = _split(path)
    if not (bucket and key.strip("/")):
        raise InputError(f"expected s3://bucket/key, found {path!r}")
    return True


def _split(path: str) -> tuple[str, str]:
    """Return bucket and key; a key may hold '?' and '#', which are no parts of a query here."""
    bucket, _, key = path.removeprefix(SCHEME).partition("/")
    return bucket, key.lstrip("/")


def read_objects(request: SourceRequest, config: FileConfig) -> SourceRows:
    """Read the objects that `config.path` names, as `s3` does."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client("s3", config=Config(retries={"mode": "standard", "max_attempts": MAX_ATTEMPTS}))
    bucket, path = _split(config.path)
    try:
        keys = _keys(client, bucket, path)
        files = [_download(client, bucket, key, request.scratch / f"{n:05d}") for n, key in enumerate(keys)]
    except (BotoCoreError, ClientError) as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"source s3: cannot read {config.path}: {told}. {what_to_do(error)}") from error
    return open_files(files, config, {"source": "s3", "name": config.path})


def _keys(client: Any, bucket: str, path: str) -> list[str]:
    if not path.endswith("/"):
        return [path]
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=path)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    keys = sorted(key for key in keys if key.endswith((*JSONL_SUFFIXES, *PARQUET_SUFFIXES)))
    if not keys:
        raise InputError(f"source s3: no JSONL or Parquet object below s3://{bucket}/{path}")
    return keys


def _download(client: Any, bucket: str, key: str, folder: Path) -> Path:
    """Download one object and check size and, where the server gives a plain one, its MD5."""
    folder.mkdir(parents=True)
    name = key.rpartition("/")[2]
    if len(name.encode()) > MAX_NAME_BYTES or name in (".", "..") or "\0" in name:
        raise InputError(f"source s3: key {key[:SHOWN_OF_A_KEY]!a} of bucket {bucket} cannot be a file's name")
    path = folder / name
    reply = client.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as stream:
        for chunk in reply["Body"].iter_chunks(CHUNK_BYTES):
            md5.update(chunk)
            stream.write(chunk)
    tag = reply["ETag"].strip('"')
    if path.stat().st_size != reply["ContentLength"] or (len(tag) == 32 and tag != md5.hexdigest()):
        raise InputError(f"source s3: s3://{bucket}/{key} did not arrive whole; run the stage again")
    return path
