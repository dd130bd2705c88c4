"""Digests: order independent, path separated, sensitive to every byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.artifacts import ArtifactType, describe_folder, hash_parts


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_digest_is_the_hash_of_the_canonical_manifest_worked_by_hand(tmp_path: Path) -> None:
    manifest = describe_folder(write(tmp_path, {"b.txt": b"2", "a/c.txt": b"1"}), ArtifactType.DATASET, {"kind": "x"})
    by_hand = {
        "files": [
            {"path": "a/c.txt", "sha256": hashlib.sha256(b"1").hexdigest(), "size": 1},
            {"path": "b.txt", "sha256": hashlib.sha256(b"2").hexdigest(), "size": 1},
        ],
        "metadata": {"kind": "x"},
        "type": "Dataset",
    }
    text = json.dumps(by_hand, sort_keys=True, separators=(",", ":"))
    assert manifest.canonical().decode() == text
    assert manifest.digest == hashlib.sha256(text.encode()).hexdigest()
    assert manifest.size == 2


def test_moving_bytes_between_name_and_content_changes_the_digest(tmp_path: Path) -> None:
    one = describe_folder(write(tmp_path / "1", {"ab": b"c"}), ArtifactType.DATASET)
    two = describe_folder(write(tmp_path / "2", {"a": b"bc"}), ArtifactType.DATASET)
    three = describe_folder(write(tmp_path / "3", {"a/b": b"c"}), ArtifactType.DATASET)
    assert len({one.digest, two.digest, three.digest}) == 3


def test_the_order_in_which_files_were_made_does_not_matter(tmp_path: Path) -> None:
    files = {f"f{index}": bytes([index]) for index in range(20)}
    forward = describe_folder(write(tmp_path / "1", files), ArtifactType.MODEL)
    backward = describe_folder(write(tmp_path / "2", dict(reversed(files.items()))), ArtifactType.MODEL)
    assert forward.digest == backward.digest


def test_type_and_metadata_are_part_of_the_digest(tmp_path: Path) -> None:
    write(tmp_path, {"a": b"1"})
    digests = {
        describe_folder(tmp_path, ArtifactType.MODEL).digest,
        describe_folder(tmp_path, ArtifactType.DATASET).digest,
        describe_folder(tmp_path, ArtifactType.DATASET, {"kind": "x"}).digest,
    }
    assert len(digests) == 3


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="regular files only"):
        describe_folder(tmp_path, ArtifactType.DATASET)


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_no_two_splits_of_the_same_bytes_collide(left: list[bytes], right: list[bytes]) -> None:
    assert (hash_parts(*left) == hash_parts(*right)) == (left == right)
