"""Artifacts: whole or not at all, the same on every backend, and every damaged byte is named."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import CorruptArtifact, InputError
from components.runtime.store import Store, open_store

FILES = {"config.json": b"{}", "weights/model.safetensors": b"\x00\x01" * 5000, "empty": b""}
NOWHERE = "0" * 64


def content(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_commit_can_be_fetched_whole(store, folder):
    manifest = store.commit(ArtifactType.MODEL, folder(FILES), {"step": 3})

    assert content(store.fetch(manifest.digest)) == FILES
    assert store.manifest(manifest.digest) == manifest
    assert (manifest.type, manifest.metadata, manifest.size) == ("Model", {"step": 3}, 10_002)
    assert store.has(manifest.digest) and list(store.digests()) == [manifest.digest]
    assert store.artifact_uri(manifest.digest) == f"{store.uri}/objects/{manifest.digest}/files"


def test_one_file_is_read_without_the_others(store, folder):
    digest = store.commit(ArtifactType.MODEL, folder(FILES)).digest
    store.blobs.delete([f"objects/{digest}/files/weights/model.safetensors"])

    assert store.read_file(digest, "config.json") == b"{}"
    with pytest.raises(CorruptArtifact, match=r"model\.safetensors: its bytes are not those that were stored"):
        store.read_file(digest, "weights/model.safetensors")


def test_the_digest_is_the_sha256_of_a_manifest_that_anyone_can_write(store, folder):
    entry = {"path": "a", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1}
    by_hand = json.dumps(
        {"files": [entry], "metadata": {}, "type": "Dataset"}, sort_keys=True, separators=(",", ":")
    ).encode()

    digest = store.commit(ArtifactType.DATASET, folder({"a": b"x"})).digest

    assert digest == hashlib.sha256(by_hand).hexdigest()
    assert store.blobs.read(f"objects/{digest}/manifest.json") == by_hand


def test_equal_content_has_one_digest_on_every_backend(folder, tmp_path, s3_uri):
    stores = [open_store(str(tmp_path / "one")), open_store((tmp_path / "two").as_uri()), open_store(s3_uri)]
    assert len({store.commit(ArtifactType.MODEL, folder(FILES)).digest for store in stores}) == 1


def test_committing_again_changes_nothing(backend, folder):
    first = backend.store.commit(ArtifactType.MODEL, folder(FILES))
    keys = backend.stored()
    second = backend.store.commit(ArtifactType.MODEL, folder(FILES))

    assert second == first
    assert backend.stored() == keys


def test_an_artifact_may_be_empty(store, folder):
    digest = store.commit(ArtifactType.REPORT, folder({})).digest
    assert content(store.fetch(digest)) == {}


def test_files_are_read_only_and_the_source_may_go(store, folder):
    source = folder(FILES)
    digest = store.commit(ArtifactType.MODEL, source).digest
    for name in FILES:
        (source / name).unlink()

    fetched = store.fetch(digest)
    assert {path.stat().st_mode & 0o222 for path in fetched.rglob("*") if path.is_file()} == {0}
    assert content(fetched) == FILES


def test_a_file_with_a_second_name_is_copied_so_that_its_owner_may_still_write_it(tmp_path, folder):
    store = open_store(str(tmp_path / "store"))
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"before")
    source = folder({})
    os.link(theirs, source / "file")

    digest = store.commit(ArtifactType.DATASET, source).digest
    theirs.write_bytes(b"after!")

    assert content(store.fetch(digest)) == {"file": b"before"}


def test_a_directory_store_neither_copies_in_nor_out(tmp_path, folder):
    store = open_store(str(tmp_path / "store"))
    source = folder({"big": b"x"})
    inode = (source / "big").stat().st_ino
    fetched = store.fetch(store.commit(ArtifactType.MODEL, source).digest)
    assert (fetched / "big").stat().st_ino == inode
    assert fetched.is_relative_to(tmp_path / "store")


def test_links_are_refused(store, folder):
    source = folder({"a": b"x"})
    (source / "b").symlink_to("a")
    with pytest.raises(ValueError, match="regular files only"):
        store.commit(ArtifactType.DATASET, source)
    assert list(store.digests()) == []


@pytest.mark.parametrize("name", [*FILES, None])
def test_one_flipped_byte_is_seen_and_named(backend, folder, name):
    digest = backend.store.commit(ArtifactType.MODEL, folder({**FILES, "empty": b"!"})).digest
    backend.flip(f"objects/{digest}/" + (f"files/{name}" if name else "manifest.json"))

    with pytest.raises(CorruptArtifact, match=f"{digest}.*{name or 'manifest.json'}.*--repair"):
        backend.store.fetch(digest)


@pytest.mark.parametrize(("change", "says"), [(b"[]", "config.json has"), (None, "config.json is missing")])
def test_missing_and_changed_files_are_named(backend, folder, change, says):
    digest = backend.store.commit(ArtifactType.MODEL, folder(FILES)).digest
    backend.tamper(f"objects/{digest}/files/config.json", change)
    with pytest.raises(CorruptArtifact, match=says):
        backend.store.fetch(digest)


def test_an_added_file_is_seen_on_a_directory(tmp_path, folder):
    store = open_store(str(tmp_path / "store"))
    fetched = store.fetch(store.commit(ArtifactType.DATASET, folder({"rows.jsonl": b""})).digest)
    (fetched / "rows-2.jsonl").write_bytes(b"{}")
    with pytest.raises(CorruptArtifact, match=r"rows-2\.jsonl is there but not in the manifest"):
        store.fetch(fetched.parent.name)


def test_a_damaged_cache_is_refilled(s3_uri, folder):
    store = open_store(s3_uri)
    digest = store.commit(ArtifactType.MODEL, folder(FILES)).digest
    cached = store.fetch(digest) / "config.json"
    cached.chmod(0o644)
    cached.write_bytes(b"[]")
    assert content(store.fetch(digest)) == FILES


def test_doing_what_the_error_says_mends_the_artifact(backend, folder):
    digest = backend.store.commit(ArtifactType.MODEL, folder(FILES)).digest
    backend.flip(f"objects/{digest}/files/config.json")
    backend.store.delete(digest)

    assert not backend.store.has(digest)
    assert backend.store.commit(ArtifactType.MODEL, folder(FILES)).digest == digest
    assert content(backend.store.fetch(digest)) == FILES


def test_committing_the_same_content_mends_a_missing_file(backend, folder):
    digest = backend.store.commit(ArtifactType.MODEL, folder(FILES)).digest
    backend.tamper(f"objects/{digest}/files/config.json", None)
    backend.store.commit(ArtifactType.MODEL, folder(FILES))
    assert content(backend.store.fetch(digest)) == FILES


def test_a_manifest_that_points_outside_is_refused(backend):
    entry = {"path": "../../secret", "sha256": NOWHERE, "size": 0}
    data = json.dumps({"files": [entry], "metadata": {}, "type": "Dataset"}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(data.encode()).hexdigest()
    backend.tamper(f"objects/{digest}/manifest.json", data.encode())
    with pytest.raises(CorruptArtifact, match="outside of the artifact"):
        backend.store.fetch(digest)


def test_deleting_frees_the_bytes(backend, folder):
    digest = backend.store.commit(ArtifactType.MODEL, folder(FILES)).digest
    assert backend.store.delete(digest) > 10_000
    assert backend.stored() == []


def test_unknown_artifacts_and_malformed_digests_are_input_errors(store: Store):
    with pytest.raises(InputError, match="not in "):
        store.manifest(NOWHERE)
    with pytest.raises(InputError, match="64 hexadecimal"):
        store.fetch("../../etc")
