"""What a digest depends on: names and bytes of files, type and metadata, and nothing else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from components.contract.artifacts import Manifest, describe_folder, hash_parts

NAMES = st.text("abc", min_size=1, max_size=3)
FILES = st.dictionaries(
    NAMES | st.tuples(NAMES.map("d{}".format), NAMES).map("/".join), st.binary(max_size=4), max_size=5
)


def describe(files: dict[str, bytes], order: list[str] | None = None, seconds: float | None = None) -> Manifest:
    with tempfile.TemporaryDirectory() as root:
        for name in order or list(files):
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
            if seconds is not None:
                os.utime(path, (seconds, seconds))
        return describe_folder(Path(root), "Dataset")


@given(FILES, st.randoms(use_true_random=False))
def test_the_order_and_time_of_writing_do_not_matter(files, random):
    shuffled = random.sample(sorted(files), len(files))
    assert describe(files, shuffled, seconds=1.0).digest == describe(files).digest


@given(FILES, FILES)
def test_different_trees_have_different_digests(one, other):
    assert (describe(one).digest == describe(other).digest) == (one == other)


def test_paths_and_contents_do_not_run_together():
    trees = [{"ab": b"x", "c": b""}, {"a": b"bx", "c": b""}, {"a": b"b", "xc": b""}, {"a/b": b"x", "c": b""}]
    assert len({describe(tree).digest for tree in trees}) == len(trees)


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_parts_are_kept_apart(one, other):
    assert (hash_parts(*one) == hash_parts(*other)) == (one == other)


def test_type_and_metadata_are_part_of_the_digest(tmp_path):
    digests = {
        describe_folder(tmp_path, type, metadata).digest
        for type in ("Dataset", "Model")
        for metadata in ({}, {"a": 1}, {"a": 2}, {"b": 1})
    }
    assert len(digests) == 8
    assert describe_folder(tmp_path, "Model", {"a": 1, "b": 2}) == describe_folder(tmp_path, "Model", {"b": 2, "a": 1})
