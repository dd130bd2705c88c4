"""Verification: every byte is read, what is damaged is named, set aside with the reason, and made anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.runtime.lineage.heal import read_or_copy, rebuilt
from components.runtime.lineage.registry import find_version, register_model
from components.runtime.store.s3 import S3Blobs
from components.runtime.upkeep.verify import verify
from tests.runtime.upkeep.conftest import outputs
from tests.support.partials import newest_partial


def tamper(store, key, data):
    """Write other bytes behind the store's back, without dating anything anew on a disk."""
    if isinstance(store.blobs, S3Blobs):
        store.blobs.calls.client.put_object(Bucket=store.blobs.bucket, Key=store.blobs.prefix + key, Body=data)
        return
    path = Path(store.uri) / key
    found = path.stat()
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def flip(store, key):
    data = bytearray(store.blobs.read(key))
    data[len(data) // 2] ^= 1
    tamper(store, key, bytes(data))


def aside(store):
    """Return what lies in quarantine: the key that it had -> the reason."""
    keys = [blob.key for blob in store.blobs.list("quarantine/") if blob.key.endswith("/reason.json")]
    records = [json.loads(store.blobs.read(key))["value"] for key in keys]
    return {record["key"]: record["reason"] for record in records}


def test_a_whole_store_is_said_to_be_whole(store, run):
    run(store, "a-1")
    found = verify(store)
    assert (found.damage, found.missing) == ([], []) and found.records > 8 and found.size
    assert found.artifacts == verify(store, "a-1").artifacts == len(set(store.digests()))


def test_each_damaged_thing_is_found_and_repaired_without_losing_a_byte(store, run):
    entry = run(store, "a-1")
    register_model(
        store, "m", entry["outputs"]["model"]["digest"], run_id="a-1", stage="second", metrics={}, aliases=["x"]
    )
    weights = f"objects/{entry['outputs']['model']['digest']}/files/sum.json"
    metrics = f"objects/{entry['outputs']['metrics']['digest']}/manifest.json"
    records = [
        "ledger/a-1/run.json",
        "ledger/a-1/stages/second.json",
        f"actions/{entry['fingerprint']}.json",
        f"producers/{entry['outputs']['model']['digest']}/{entry['fingerprint']}.json",
        "models/m/000001.json",
        "models/m/aliases/x.json",
        "spool/a-1/run-started.json",
    ]
    before = {}
    for key in records:  # each by itself: what has one copy cannot lose both
        before[key] = store.get(key)
        flip(store, key)
        (found,) = verify(store).damage
        assert (found.kind, found.key) == ("record", key)
        (repaired,) = verify(store, repair=True).damage
        assert repaired.outcome == "set aside, and made again from its copies"
        after = store.get(key)
        kept = (set(before[key]) & set(after)) - {"stages", "code", "expect", "seconds", "registered"}
        assert {name: after[name] for name in kept} == {name: before[key][name] for name in kept}
        assert verify(store).damage == []
    bad = store.blobs.read(weights)
    flip(store, weights)
    flip(store, metrics)
    found = verify(store, "a-1")
    assert {item.key for item in found.damage} == {weights.rpartition("/files")[0], metrics.rpartition("/")[0]}
    assert "sum.json has SHA-256" in str(found.damage)
    repaired = verify(store, repair=True)
    makes = "set aside; the next run rebuilds it ("  # the first stage may have made equal bytes
    assert [item.outcome for item in repaired.damage if not item.outcome.startswith(makes)] == []
    moved = [blob.key for blob in store.blobs.list("quarantine/") if blob.key.endswith(weights)]
    assert len(moved) == 1 and store.blobs.read(moved[0]) != bad
    assert set(aside(store)) == {*records, weights.rpartition("/files")[0], metrics.rpartition("/")[0]}
    assert set(verify(store, "a-1").missing) == outputs(entry)
    again = run(store, "a-1")
    assert again["outputs"] == entry["outputs"] and verify(store, "a-1").missing == []


def test_a_record_without_a_copy_is_set_aside(store, run):
    run(store, "a-1")
    store.put("approvals/a-1/first.json", {"approved": True})
    flip(store, "approvals/a-1/first.json")
    (repaired,) = verify(store, "a-1", repair=True).damage
    assert repaired.outcome == "set aside; the stage asks again"
    assert store.get("approvals/a-1/first.json") is None


def test_damaged_partial_checkpoints_are_found(store, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "state").write_bytes(b"12345")
    store.partials("fp").save(3, tmp_path / "p")
    (key,) = [blob.key for blob in store.blobs.list("partial/") if "/pieces/" in blob.key]
    flip(store, key)
    (found,) = verify(store, repair=True).damage
    assert found.kind == "partial checkpoint" and newest_partial(store, "fp") is None


def test_a_damaged_version_is_read_from_its_copy_without_writing(store, run, caplog):
    digest = run(store, "a-1")["outputs"]["model"]["digest"]
    register_model(store, "m", digest, run_id="a-1", stage="second", metrics={}, aliases=["x"])
    flip(store, "models/m/000001.json")
    assert find_version(store, "m@x")["digest"] == digest
    assert "posttrain verify --repair" in caplog.text and aside(store) == {}
    assert register_model(store, "m", digest, run_id="a-1", stage="second", metrics={}, aliases=["y"]) == 1
    assert store.get("models/m/000001.json")["digest"] == digest


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 50])
def test_an_end_that_was_cut_is_told_by_the_spool(store, data):
    store.put("spool/r/turns/00001000000000-succeeded.json", {
        "kind": "run_finished", "run_id": "r", "time": "1970-01-12T13:46:40Z", "status": "succeeded", "seconds": 2.0,
    })  # fmt: skip
    store.blobs.write("ledger/r/end.json", data)
    ended = {"status": "succeeded", "ended": "1970-01-12T13:46:40.000+00:00", "seconds": 2.0}
    assert rebuilt(store, "ledger/r/end.json") == ended == read_or_copy(store, "ledger/r/end.json")


def committed(store, tmp_path, name="m", size=100):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "w").write_bytes(b"w" * size)
    return store.commit(ArtifactType.MODEL, folder).digest


def test_a_look_sees_sizes_and_changes_and_reads_nothing_else(store, tmp_path, monkeypatch):
    digest = committed(store, tmp_path)
    read = []
    original = type(store.blobs).hash
    monkeypatch.setattr(type(store.blobs), "hash", lambda self, key: read.append(key) or original(self, key))
    assert store.use(digest) and read == []
    store.blobs.write(f"objects/{digest}/files/w", b"x" * 100)  # a change dates a file, as any write does
    if isinstance(store.blobs, S3Blobs):
        return  # the local server dates by whole seconds, as S3 does
    assert "SHA-256" in store.look(digest).damage and len(read) == 1
    assert not store.use(digest) and not store.has(digest) and len(aside(store)) == 1


def test_a_truncated_file_is_seen_by_its_size(store, tmp_path, caplog):
    digest = committed(store, tmp_path)
    tamper(store, f"objects/{digest}/files/w", b"w" * 99)
    assert not store.use(digest)
    assert "w has 99 bytes instead of 100; set aside in" in caplog.text
    assert committed(store, tmp_path, "again") == digest and store.use(digest)


def test_decay_is_found_by_the_sample_of_an_artifact_that_was_long_not_read(tmp_path, monkeypatch):
    from components.runtime.store import open_store

    store = open_store(str(tmp_path / "store"))
    digest = committed(store, tmp_path)
    tamper(store, f"objects/{digest}/files/w", b"x" * 100)
    assert store.use(digest), "no time tells of it, and nothing is due"
    manifest = tmp_path / "store" / "objects" / digest / "manifest.json"
    month = manifest.stat().st_mtime - 30 * 86400
    os.utime(manifest, (month, month))
    os.utime(manifest.parent / "files" / "w", (month - 9, month - 9))
    assert not store.use(digest)


def test_a_file_that_was_touched_and_is_right_is_read_once(tmp_path):
    from components.runtime.store import open_store

    store = open_store(str(tmp_path / "store"))
    digest = committed(store, tmp_path)
    path = tmp_path / "store" / "objects" / digest
    made = path.joinpath("manifest.json").stat().st_mtime
    os.utime(path / "manifest.json", (made - 60, made - 60))
    os.utime(path / "files" / "w", (made - 30, made - 30))
    assert path.joinpath("files/w").stat().st_mtime_ns > path.joinpath("manifest.json").stat().st_mtime_ns
    assert store.use(digest)
    assert path.joinpath("files/w").stat().st_mtime_ns <= path.joinpath("manifest.json").stat().st_mtime_ns


def test_a_damaged_record_never_wins_against_a_new_one(store):
    store.blobs.write("actions/a.json", b"cut")
    assert store.put("actions/a.json", {"x": 1}) and not store.put("actions/a.json", {"x": 2})
    assert store.get("actions/a.json") == {"x": 1} and list(aside(store)) == ["actions/a.json"]
    store.blobs.write("actions/a.json", b"cut")
    assert store.recover("actions/a.json") is None and store.put("actions/a.json", {"x": 3})
