"""Partial checkpoints: the newest whole one is resumed from, whatever happened to the others."""

from __future__ import annotations

import hashlib

import pytest

from components.contract.artifacts import ArtifactType, describe_folder
from components.contract.errors import StoreUnavailable
from components.runtime.store.partial_upkeep import check_partial
from components.runtime.store.trees import write_tree
from tests.support.partials import newest_partial


def save(store, folder, *steps):
    for step in steps:
        store.partials("fp").save(step, folder({"state": f"at {step}".encode(), "rng": b"r"}))


def loaded(store, told=None):
    found = newest_partial(store, "fp", [].append if told is None else told.append)
    return found and (found[0], (found[1] / "state").read_bytes().decode())


def trees(backend):
    return sorted(key.split("/")[2] for key in backend.stored() if key.endswith("/manifest.json"))


def pieces(backend):
    return [key for key in backend.stored() if "/pieces/" in key]


def piece(data: bytes) -> str:
    return f"partial/fp/pieces/{hashlib.sha256(data).hexdigest()}"


def test_nothing_saved_is_a_fresh_start(store):
    assert newest_partial(store, "fp") is None


def test_the_newest_is_loaded_and_two_are_kept(backend, folder):
    save(backend.store, folder, 1, 2, 10, 9_999_999)
    assert loaded(backend.store) == (9_999_999, "at 9999999")
    assert [int(tree.split("-")[0]) for tree in trees(backend)] == [10, 9_999_999]


def test_fingerprints_do_not_mix(store, folder):
    save(store, folder, 5)
    assert newest_partial(store, "other") is None
    assert newest_partial(store, "f") is None


@pytest.mark.parametrize("part", ["state", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_one_is_reported_and_the_older_one_used(backend, folder, part, damage):
    save(backend.store, folder, 1, 2)
    key = piece(b"at 2") if part == "state" else f"partial/fp/{trees(backend)[-1]}/{part}"
    if damage == "flip":
        backend.flip(key)
    else:
        backend.tamper(key, None)

    told = []
    assert loaded(backend.store, told) == (1, "at 1")
    if (part, damage) != ("manifest.json", "remove"):  # without a manifest it was never whole: nothing to report
        assert part in told[0]

    save(backend.store, folder, 2)
    assert loaded(backend.store) == (2, "at 2")


def test_a_damaged_piece_of_all_checkpoints_is_a_fresh_start_and_is_written_again(backend, folder):
    save(backend.store, folder, 1, 2)
    backend.flip(piece(b"r"))
    assert loaded(backend.store) is None
    save(backend.store, folder, 1)
    assert loaded(backend.store) == (1, "at 1")


def test_what_did_not_change_is_written_once(backend, folder, monkeypatch):
    partials, written = backend.store.partials("fp"), []
    upload = backend.store.blobs.upload
    monkeypatch.setattr(
        backend.store.blobs,
        "upload",
        lambda prefix, source, entries: written.extend(entries) or upload(prefix, source, entries),
    )
    for step in (1, 2, 3):
        partials.save(step, folder({"frozen": b"w" * 1000, "state": b"%d" % step}))
    assert [entry.size for entry in written if entry.size > 1] == [1000]
    kept = partials.put(folder({"state": b"4"}))
    partials.commit(
        4, [*kept, *(entry.model_copy(update={"path": "frozen"}) for entry in written if entry.size == 1000)]
    )
    step, root = newest_partial(backend.store, "fp")
    assert step == 4 and (root / "frozen").read_bytes() == b"w" * 1000
    assert sorted(pieces(backend)) == sorted(map(piece, [b"w" * 1000, b"3", b"4"]))


def test_pieces_without_a_checkpoint_are_swept_unless_the_job_runs(backend, folder):
    save(backend.store, folder, 1)
    whole = backend.stored()
    backend.store.partials("fp").put(folder({"weights": b"half of a checkpoint"}))
    with backend.store.lock("job-fp", wait_seconds=0):
        assert backend.store.sweep(min_age_seconds=-10) == 0
    assert piece(b"half of a checkpoint") in backend.stored()
    assert backend.store.sweep() == 0  # too young
    assert backend.store.sweep(min_age_seconds=-10) == 1
    assert [key for key in backend.stored() if not key.startswith("locks/")] == whole
    assert loaded(backend.store) == (1, "at 1")


def test_a_checkpoint_of_an_earlier_version_is_read_and_replaced(backend, folder):
    old = folder({"state": b"at 7", "rng": b"r"})
    manifest = describe_folder(old, ArtifactType.CHECKPOINTS, {"step": 7})
    write_tree(backend.store.blobs, f"partial/fp/{7:012d}-{manifest.digest}", old, manifest)
    partials = backend.store.partials("fp")
    into = folder({}) / "resume"
    assert partials.load(into)[:2] == (7, ()) and (into / "state").read_bytes() == b"at 7"
    assert check_partial(backend.store.blobs, f"partial/fp/{7:012d}-{manifest.digest}", manifest.digest) == (5, None)
    for step in (8, 9):
        partials.save(step, folder({"state": b"at %d" % step}))
    assert loaded(backend.store) == (9, "at 9") and not [key for key in backend.stored() if "/files/" in key]


def test_saving_never_removes_what_it_just_saved(backend, folder):
    save(backend.store, folder, 1, 3, 4)
    for tree in trees(backend)[-2:]:
        backend.flip(f"partial/fp/{tree}/manifest.json")
    save(backend.store, folder, 2)
    assert loaded(backend.store) == (2, "at 2")


def test_saving_the_same_step_again_is_idempotent(backend, folder):
    save(backend.store, folder, 1, 2)
    before = backend.stored()
    save(backend.store, folder, 2)
    assert backend.stored() == before


def test_dropping_leaves_nothing(backend, folder):
    save(backend.store, folder, 1, 2)
    backend.store.partials("fp").drop()
    assert newest_partial(backend.store, "fp") is None
    assert backend.stored() == []


def ranks_parts(store, folder, step):
    """Save a checkpoint of three ranks."""
    parts = {f"weights-{rank:05d}": f"{rank} at {step}".encode() for rank in range(3)}
    store.partials("fp").save(step, folder({"state": f"at {step}".encode(), **parts}))


def is_part(path: str) -> bool:
    return path.startswith("weights-")


def test_what_is_left_for_later_is_read_only_when_it_is_fetched(backend, folder, tmp_path, monkeypatch):
    ranks_parts(backend.store, folder, 4)
    read, blobs = [], backend.store.blobs
    download = blobs.download
    monkeypatch.setattr(
        blobs, "download", lambda files, into: (read.extend(e.path for _, e in files), download(files, into))
    )
    partials, into = backend.store.partials("fp"), tmp_path / "into"
    step, entries, _ = partials.load(into, later=is_part)
    assert step == 4 and len(entries) == 4
    assert read == ["state"] and [path.name for path in into.iterdir()] == ["state"]
    assert partials.fetch("weights-00001", into)
    assert (into / "weights-00001").read_bytes() == b"1 at 4"
    assert not partials.fetch("weights-00001", into) and not partials.fetch("weights-00009", into)
    assert read == ["state", "weights-00001"]
    # What was not verified at the start is not relied on: a later checkpoint with the same bytes writes them again.
    assert {entry.path: partials.holds(entry) for entry in entries} == {
        "state": True,
        "weights-00000": False,
        "weights-00001": False,
        "weights-00002": False,
    }


def test_a_damaged_part_ends_the_attempt_and_the_next_takes_the_checkpoint_before(backend, folder, tmp_path):
    for step in (4, 5):
        ranks_parts(backend.store, folder, step)
    backend.flip(piece(b"1 at 5"))
    partials, told = backend.store.partials("fp"), []
    assert partials.load(tmp_path / "first", later=is_part)[0] == 5
    assert partials.fetch("weights-00000", tmp_path / "first")
    with pytest.raises(
        StoreUnavailable, match=r"weights-00001.*run again: the stage goes on from the checkpoint before"
    ):
        partials.fetch("weights-00001", tmp_path / "first", told.append)
    assert told
    again = backend.store.partials("fp")
    assert again.load(tmp_path / "second", later=is_part)[0] == 4
    assert again.fetch("weights-00001", tmp_path / "second")
    assert (tmp_path / "second" / "weights-00001").read_bytes() == b"1 at 4"
