"""Writers beside a collector that removes the folders they write to: nothing fails, nothing is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from components.contract.artifacts import FileEntry, hash_file
from components.runtime.store.directory import DirectoryBlobs

ROUNDS = 150


@pytest.fixture
def pruned(tmp_path):
    """Blobs whose folders below objects/ another thread removes as soon as they are empty."""
    blobs, over = DirectoryBlobs(tmp_path / "store"), threading.Event()

    def prune():
        while not over.is_set():
            blobs.delete(["objects/one/files/absent", "moved/one/absent", "records/absent"])

    thread = threading.Thread(target=prune)
    thread.start()
    yield blobs
    over.set()
    thread.join(60)


def test_an_upload_makes_again_what_is_pruned_under_it(pruned, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "part").write_text("text")
    entries = [FileEntry(path="part", size=4, sha256=hash_file(folder / "part"))]
    for _ in range(ROUNDS):
        pruned.upload("objects/one/files", folder, entries)
        assert pruned.holds("objects/one/files", entries)
        pruned.delete(["objects/one/files/part"])


def test_what_is_moved_arrives(pruned):
    for number in range(ROUNDS):
        pruned.write("source/file", str(number).encode())
        pruned.move("source/file", "moved/one/file")
        assert pruned.read("moved/one/file") == str(number).encode()
        pruned.delete(["moved/one/file"])


def test_a_record_is_written_where_its_folder_was_pruned(pruned):
    for number in range(ROUNDS):
        assert pruned.create("records/one", str(number).encode())
        assert pruned.read("records/one") == str(number).encode()
        pruned.delete(["records/one"])


def test_moving_what_is_not_there_leaves_nothing(tmp_path):
    blobs = DirectoryBlobs(tmp_path / "store")
    blobs.write("other", b"")
    blobs.move("absent", "moved/one/file")
    assert sorted(path.name for path in Path(blobs.uri).iterdir()) == ["other", "tmp"]
