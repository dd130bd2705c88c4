"""Objects of an S3 bucket, downloaded, verified, and then read like files."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator

from components.contract.errors import InputError
from components.runtime.store.s3_advice import what_to_do
from components.runtime.store.s3_calls import MISSING, DamagedBody, S3Calls, code_of
from components.runtime.store.s3_objects import check_names, download, object_sizes
from components.tasks.source import SourceRequest, SourceRows
from components.tasks.table_files import JSONL_SUFFIXES, PARQUET_SUFFIXES
from components.tasks.tables import FileConfig, open_files

SCHEME = "s3://"


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
    """Return bucket and key; '?' and '#' are ordinary characters of a key."""
    bucket, _, key = path.removeprefix(SCHEME).partition("/")
    return bucket, key.lstrip("/")


def read_objects(request: SourceRequest, config: FileConfig) -> SourceRows:
    """Read the objects that `config.path` names, as `s3` does.

    Raises InputError for an object that is missing, cannot be a file or arrives incomplete; StoreUnavailable, which is
    retried, when the bucket cannot be read.
    """
    bucket, path = _split(config.path)
    calls = S3Calls(bucket, config.path, what="source")
    files = [_download(calls, key, request.scratch / f"{n:05d}") for n, key in enumerate(_keys(calls, path))]
    return open_files(files, config, {"source": "s3", "name": config.path})


def _keys(calls: S3Calls, path: str) -> list[str]:
    if not path.endswith("/"):
        return [path]
    keys = sorted(key for key in object_sizes(calls, path) if key.endswith((*JSONL_SUFFIXES, *PARQUET_SUFFIXES)))
    if not keys:
        raise InputError(f"source s3: no JSONL or Parquet object below s3://{calls.bucket}/{path}")
    return keys


def _download(calls: S3Calls, key: str, folder: Path) -> Path:
    """Return the file that an object was downloaded to, under the last part of its name."""
    from botocore.exceptions import ClientError

    try:
        path = folder / check_names(key, key.rpartition("/")[2])
        download(calls, key, path)
    except ValueError as error:
        raise InputError(f"source s3: bucket {calls.bucket}: {error}") from None
    except ClientError as error:
        if code_of(error) not in MISSING:
            raise
        told = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"source s3: cannot read s3://{calls.bucket}/{key}: {told}. {what_to_do(error)}") from error
    except DamagedBody as error:
        raise InputError(f"source s3: s3://{calls.bucket}/{key} did not arrive whole ({error}); run again") from error
    return path
