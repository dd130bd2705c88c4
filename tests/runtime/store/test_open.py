"""Opening a store: every way to write its address, nothing heavy, and clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.contract.errors import InputError, StoreUnavailable
from components.runtime.store import open_store
from tests.support.partials import newest_partial

CHEAP = """
import sys, time
from pydantic import BaseModel, Field
class Warm(BaseModel):
    x: int = Field(ge=0)
started = time.process_time()
from components.runtime.store import open_store
store = open_store(sys.argv[1])
store.put("a.json", {})
print(time.process_time() - started, *(name for name in ("boto3", "botocore", "numpy") if name in sys.modules))
"""


def test_a_directory_can_be_written_in_three_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "my store"
    uris = {open_store(uri).uri for uri in (str(root), root.as_uri(), "my store")}
    assert uris == {str(root)}


def test_opening_reads_and_makes_nothing(tmp_path):
    store = open_store(str(tmp_path / "none"))
    assert list(store.keys("")) == [] and list(store.digests()) == [] and store.get("a.json") is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("gs://b/x", "'gs'.*known"),
        ("s3:///x", "no bucket"),
        ("", "empty"),
        ("x" * 300, "too long"),
        ("st\udcc3", "PYTHONUTF8=1"),
    ],
)
def test_other_addresses_are_refused(uri, says):
    with pytest.raises(InputError, match=says):
        open_store(uri)


def test_s3_addresses_are_normal(s3_uri):
    assert open_store(s3_uri + "/").uri == s3_uri
    assert open_store("s3://bucket").uri == "s3://bucket"


def test_importing_and_using_a_directory_is_cheap_and_needs_no_boto(tmp_path):
    command = [sys.executable, "-c", CHEAP, str(tmp_path)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    assert [loaded for _, *loaded in runs] == [[]] * 3
    assert min(float(seconds) for seconds, *_ in runs) < 0.15  # about 0.03 s on a quiet machine


def test_a_store_that_cannot_be_written_says_where_and_what_to_do(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "tmp").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match=r"store: cannot write .*: .*Check free space, permissions"):
        open_store(str(tmp_path / "store")).put("a.json", {})


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="file is a file; a store is a folder"):
            open_store(str(path))


def test_an_endpoint_that_is_no_url_is_named(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "garbage")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    with pytest.raises(InputError, match=r"garbage.*AWS_ENDPOINT_URL"):
        list(open_store("s3://bucket").keys(""))


def test_a_full_disk_says_so_and_leaves_nothing_visible(tmp_path, folder):
    """/dev/full fails every write with ENOSPC; a temporary folder on it cannot be made, so limit the file size."""
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from components.runtime.store import open_store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "open_store(sys.argv[1]).put('a.json', {'x': 'y' * 100000})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, env=os.environ
    )
    assert "StoreUnavailable" in done.stderr and "cannot write a.json: File too large. Check" in done.stderr
    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []


def test_sweep_spares_what_is_whole_and_what_is_young(backend, folder):
    store = backend.store
    store.put("a.json", {})
    digest = store.commit("Model", folder({"w": b"1"})).digest
    store.partials("fp").save(1, folder({"w": b"2"}))
    whole = backend.stored()
    backend.tamper(f"objects/{'0' * 64}/files/w", b"left by a killed commit")
    backend.tamper(f"partial/fp/000000000009-{'0' * 64}/files/w", b"left by a killed checkpoint")

    assert store.sweep() == 0
    assert store.sweep(min_age_seconds=-10) == 2
    assert backend.stored() == whole
    assert store.fetch(digest) and newest_partial(store, "fp")


def test_sweep_sees_when_a_file_came_not_how_old_it_is(tmp_path, folder):
    """A linked file keeps the old mtime of its source: a commit under way must not look abandoned."""
    store = open_store(str(tmp_path / "store"))
    source = folder({"w": b"1"})
    os.utime(source / "w", (0, 0))
    digest = store.commit("Model", source).digest
    (tmp_path / "store" / "objects" / digest / "manifest.json").unlink()
    assert store.sweep(min_age_seconds=60) == 0


def test_sweep_aborts_uploads_that_were_never_completed(s3_uri):
    store = open_store(s3_uri)
    blobs = store.blobs
    at = {"Bucket": blobs.bucket, "Key": f"{blobs.prefix}objects/x"}
    blobs.calls.client.create_multipart_upload(**at)
    assert store.sweep() == 1  # the local server dates all of them 2010
    assert store.sweep() == 0
