"""Blobs on S3: conditional writes for exclusive creation, checksums both ways, a verified cache for reading."""

from __future__ import annotations

import base64
import hashlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from components.contract.artifacts import CHUNK_BYTES, FileEntry, hash_file
from components.contract.errors import StoreUnavailable
from components.runtime.store.access import access_below, local_cache, make_folder, open_up
from components.runtime.store.blobs import Blob, corrupt, disk_errors, first_damage
from components.runtime.store.lease import hold_lease, lease_is_held
from components.runtime.store.s3_calls import MISSING, TAKEN, DamagedBody, S3Calls, code_of
from components.runtime.store.s3_listing import list_names, list_pages
from components.runtime.store.s3_objects import PART_BYTES, copy_config, fetch_object, transfer_config
from components.runtime.store.s3_uploads import abort_upload, is_upload, unfinished_uploads

THREADS = 8
KEYS_IN_A_DELETE = 1000
WRITER = "writer"
LOCKS, MANIFEST = "locks", "manifest.json"
DIGEST = "sha256"


class S3Blobs:
    """Blobs as objects below a prefix of a bucket; trees that are read are cached on this machine."""

    def __init__(self, bucket: str, prefix: str, calls: S3Calls | None = None) -> None:
        self.decays = False
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self.uri = f"s3://{bucket}/{prefix}".rstrip("/")
        self.cache = cache_folder(self.uri)
        self.calls = calls or S3Calls(bucket, self.uri)

    def read(self, key: str) -> bytes | None:
        """Return the bytes of `key`, or None if there is no such object."""
        from botocore.exceptions import ClientError

        try:
            return self.calls.run(lambda client: client.get_object(**self._at(key))["Body"].read())
        except ClientError as error:
            if code_of(error) in MISSING:
                return None
            raise
        except DamagedBody as error:
            raise corrupt(self.address(key), str(error)) from error

    def write(self, key: str, data: bytes) -> None:
        """Store `data`, replacing what was there; S3 checks it against its SHA-256."""
        checksum = _base64(hashlib.sha256(data).digest())
        self.calls.run(lambda client: client.put_object(**self._at(key), Body=data, ChecksumSHA256=checksum))

    def create(self, key: str, data: bytes) -> bool:
        """Store `data` if `key` is free (If-None-Match: *).

        A retry after a lost response finds the object that it wrote itself, so each writer tags its object.
        """
        from botocore.exceptions import ClientError

        writer = uuid.uuid4().hex
        request = {**self._at(key), "Body": data, "IfNoneMatch": "*", "Metadata": {WRITER: writer}}
        request["ChecksumSHA256"] = _base64(hashlib.sha256(data).digest())
        try:
            self.calls.run(lambda client: client.put_object(**request))
        except ClientError as error:
            if code_of(error) not in TAKEN:
                raise
            head = self._head(key)
            return head is not None and head["Metadata"].get(WRITER) == writer
        return True

    def upload(self, prefix: str, folder: Path, entries: Sequence[FileEntry]) -> None:
        """Upload files of `folder`: small ones concurrently, large ones in parallel parts."""
        self._each(entries, lambda entry: self._upload(f"{prefix}/{entry.path}", folder / entry.path, entry))

    def holds(self, prefix: str, entries: Sequence[FileEntry]) -> bool:
        """Return whether all these files are stored under `prefix`, by size and the SHA-256 recorded at upload."""

        def held(entry: FileEntry) -> bool:
            head = self._head(f"{prefix}/{entry.path}")
            found = (head["ContentLength"], head["Metadata"].get(DIGEST)) if head else None
            return found == (entry.size, entry.sha256)

        with ThreadPoolExecutor(THREADS) as pool:
            return all(pool.map(held, entries))

    def fetch(self, prefix: str, entries: Sequence[FileEntry]) -> Path:
        """Return the verified folder in the cache, downloaded if missing; a damaged cache is refilled."""
        folder = self.cache / prefix
        if folder.is_dir() and first_damage(folder, entries) is None:
            return folder
        staging = self.cache / "tmp" / uuid.uuid4().hex
        try:
            with disk_errors(f"cache of {self.uri} in {self.cache}", "write"):
                make_folder(staging, self.cache)
                self._each(entries, lambda entry: self._download(f"{prefix}/{entry.path}", staging / entry.path, entry))
                make_folder(folder.parent, self.cache)
                with suppress(OSError):
                    staging.rename(folder)
                    return folder
                if first_damage(folder, entries) is None:  # another process was first, and may be reading it
                    return folder
                shutil.rmtree(folder, ignore_errors=True)
                staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return folder

    def download(self, files: Sequence[tuple[str, FileEntry]], folder: Path) -> None:
        """Download objects: small ones concurrently, large ones in parallel parts."""
        keys = {entry.path: key for key, entry in files}
        with disk_errors(str(folder), "write"):
            entries = [entry for _, entry in files]
            self._each(entries, lambda entry: self._download(keys[entry.path], folder / entry.path, entry))

    def list(self, prefix: str) -> Iterator[Blob]:
        """Yield every object whose key starts with `prefix`, sorted by key, page by page."""
        for page in list_pages(self.calls, self.prefix + prefix):
            for item in page.get("Contents", []):
                stored = item["LastModified"].timestamp()
                yield Blob(item["Key"].removeprefix(self.prefix), item["Size"], stored, stored)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, sorted."""
        return (blob.key for blob in self.list(prefix))

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names directly in the prefix's folder that match its last part, page by page."""
        return list_names(self.calls, self.prefix + prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, a thousand per request, and their cached copies; raise StoreUnavailable if one is refused."""
        waiting = list(keys)
        for start in range(0, len(waiting), KEYS_IN_A_DELETE):
            batch = waiting[start : start + KEYS_IN_A_DELETE]
            names = {"Objects": [{"Key": self.prefix + key} for key in batch], "Quiet": True}
            request = {"Bucket": self.bucket, "Delete": names}
            answer = self.calls.run(lambda client, request=request: client.delete_objects(**request))
            if refused := answer.get("Errors"):  # although the response is a success
                first = f"{refused[0].get('Code')}: s3://{self.bucket}/{refused[0].get('Key')}"
                raise StoreUnavailable(f"store {self.uri}: {len(refused)} objects could not be removed ({first})")
            for key in batch:
                (self.cache / key).unlink(missing_ok=True)

    def hash(self, key: str) -> tuple[int, str] | None:
        """Return size and SHA-256 of an object's bytes, read now, or None if there is none."""
        from botocore.exceptions import ClientError

        def read(client: Any) -> tuple[int, str]:
            body, size, found = client.get_object(**self._at(key))["Body"], 0, hashlib.sha256()
            for chunk in iter(lambda: body.read(CHUNK_BYTES), b""):
                size += len(chunk)
                found.update(chunk)
            return size, found.hexdigest()

        try:
            return self.calls.run(read)
        except ClientError as error:
            if code_of(error) in MISSING:
                return None
            raise

    def touch(self, key: str, *, changed: bool = False) -> bool:
        """Rewrite a small object, which updates its one time. False if there is none."""
        data = self.read(key)
        if data is not None:
            self.write(key, data)
        return data is not None

    def move(self, source: str, target: str) -> None:
        """Copy all objects on the server, then remove the originals."""
        found = [blob for blob in self.list(source) if blob.key == source or blob.key.startswith(f"{source}/")]
        found.sort(key=lambda blob: not blob.key.endswith(f"/{MANIFEST}"))  # a tree without it is invisible
        for blob in found:
            key, origin = self.prefix + target + blob.key.removeprefix(source), self._at(blob.key)
            copy = partial(_copy, origin=origin, bucket=self.bucket, key=key)
            self.calls.run(copy)
        for blob in found:
            self.delete([blob.key])

    def address(self, key: str) -> str:
        """Return the s3:// URI of `key`."""
        return f"{self.uri}/{key}"

    def lock(self, name: str, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold a lease that is renewed while this process lives and expires afterwards. Raises StoreLocked."""
        return hold_lease(self.calls, f"{self.prefix}{LOCKS}/{name}.json", name, wait_seconds)

    def locks(self) -> set[str]:
        """Return the names of the leases that have not expired."""
        return {name for key, name in self._leases() if lease_is_held(self.calls, self.prefix + key)}

    def leftovers(self, older_than: float) -> list[Blob]:
        """Return expired leases, and multipart uploads that were never completed."""
        held = {f"{LOCKS}/{name}.json" for name in self.locks()}
        found = [*(blob for blob in self.list(f"{LOCKS}/") if blob.key not in held)]
        return [blob for blob in found + unfinished_uploads(self.calls, self.prefix) if blob.stored < older_than]

    def drop_leftovers(self, found: Sequence[Blob]) -> None:
        """Remove what `leftovers` found."""
        self.delete(blob.key for blob in found if not is_upload(blob))
        for blob in filter(is_upload, found):
            abort_upload(self.calls, blob)

    def _leases(self) -> list[tuple[str, str]]:
        keys = [blob.key for blob in self.list(f"{LOCKS}/")]
        return [(key, key.removeprefix(f"{LOCKS}/").removesuffix(".json")) for key in keys]

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + key}

    def _head(self, key: str) -> dict[str, Any] | None:
        from botocore.exceptions import ClientError

        try:
            return self.calls.run(lambda client: client.head_object(**self._at(key)))
        except ClientError as error:
            if code_of(error) in MISSING:
                return None
            raise

    def _upload(self, key: str, path: Path, entry: FileEntry) -> None:
        metadata = {DIGEST: entry.sha256}
        if entry.size > PART_BYTES:
            extra = {"ChecksumAlgorithm": "SHA256", "Metadata": metadata}
            request = {"Filename": str(path), **self._at(key), "ExtraArgs": extra, "Config": transfer_config()}
            self.calls.run(lambda client: client.upload_file(**request), in_parts=True)
            return

        def put(client: Any) -> None:
            with path.open("rb") as stream:
                checksum = _base64(bytes.fromhex(entry.sha256))
                client.put_object(**self._at(key), Body=stream, ChecksumSHA256=checksum, Metadata=metadata)

        self.calls.run(put)

    def _download(self, key: str, path: Path, entry: FileEntry) -> None:
        """Download and verify one file; raise CorruptArtifact if it is missing or remains wrong."""
        from botocore.exceptions import ClientError

        make_folder(path.parent, self.cache)
        large = entry.size > PART_BYTES

        def get(client: Any) -> None:
            fetch_object(client, self._at(key), path, in_parts=large)
            found = hash_file(path)
            if found != entry.sha256:
                raise DamagedBody(f"has SHA-256 {found[:12]}... instead of {entry.sha256[:12]}...")

        tree = self.address(key.removesuffix(f"/files/{entry.path}"))
        try:
            self.calls.run(get, in_parts=large)
        except DamagedBody as error:
            raise corrupt(tree, f"{entry.path} {error}") from error
        except ClientError as error:
            if code_of(error) in MISSING:
                raise corrupt(tree, f"{entry.path} is missing") from error
            raise
        open_up(path, access_below(self.cache).read_only)

    def _each(self, entries: Sequence[FileEntry], transfer: Callable[[FileEntry], None]) -> None:
        """Run `transfer` for every file: small ones concurrently, large ones (threaded themselves) in turn."""
        self.calls.client  # noqa: B018  created here once rather than by every thread
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(transfer, [entry for entry in entries if entry.size <= PART_BYTES]):
                pass
        for entry in entries:
            if entry.size > PART_BYTES:
                transfer(entry)


def _copy(client: Any, origin: dict[str, str], bucket: str, key: str) -> None:
    client.copy(origin, bucket, key, Config=copy_config())


def cache_folder(uri: str) -> Path:
    """Return this machine's cache of the store at `uri`: below $POSTTRAIN_CACHE, or ~/.cache/posttrain."""
    return local_cache() / hashlib.sha256(uri.encode()).hexdigest()[:16]


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
