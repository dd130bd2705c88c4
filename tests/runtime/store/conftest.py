"""One store per backend, with a hand that can damage what it holds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.runtime.store import Store, open_store
from components.runtime.store.s3 import S3Blobs
from components.runtime.store.s3_calls import S3Calls

Folder = Callable[[dict[str, bytes]], Path]


@dataclass
class Backend:
    """A store and raw access to its bytes, behind its back."""

    store: Store

    def stored(self) -> list[str]:
        """Return every stored key, the store's own files included."""
        return [blob.key for blob in self.store.blobs.list("")]

    def bytes(self, key: str) -> bytes:
        """Return the raw bytes of a key."""
        data = self.store.blobs.read(key)
        assert data is not None
        return data

    def tamper(self, key: str, data: bytes | None) -> None:
        """Replace the bytes of a key, or remove it, as a broken disk or a stranger would."""
        blobs = self.store.blobs
        if isinstance(blobs, S3Blobs):
            at: dict[str, Any] = {"Bucket": blobs.bucket, "Key": blobs.prefix + key}
            if data is None:
                blobs.calls.client.delete_object(**at)
            else:
                blobs.calls.client.put_object(**at, Body=data)
            return
        path = Path(blobs.uri) / key
        if data is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path.chmod(0o644)
            path.write_bytes(data)
        else:
            path.unlink()

    def flip(self, key: str) -> None:
        """Change one byte in the middle of a key."""
        data = bytearray(self.bytes(key))
        data[len(data) // 2] ^= 0x01
        self.tamper(key, bytes(data))


@pytest.fixture(scope="session")
def shared_calls() -> list[S3Calls]:
    """The S3 client that all tests of `backend` use; making one costs more than most of them."""
    return []


@pytest.fixture(params=["directory", "s3"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, shared_calls: list[S3Calls]) -> Backend:
    """An empty store of each kind."""
    if request.param == "directory":
        return Backend(open_store(str(tmp_path / "store")))
    opened = open_store(request.getfixturevalue("s3_uri")).blobs
    assert isinstance(opened, S3Blobs)
    shared_calls.append(opened.calls)
    return Backend(Store(S3Blobs(opened.bucket, opened.prefix.rstrip("/"), shared_calls[0])))


@pytest.fixture
def store(backend: Backend) -> Store:
    """The store of `backend`."""
    return backend.store


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write files into a new folder and return it."""

    def write(files: dict[str, bytes]) -> Path:
        root = tmp_path / f"folder-{uuid.uuid4().hex[:8]}"
        root.mkdir()
        for name, data in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return root

    return write
