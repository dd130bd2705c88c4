"""Records: written once, checksummed, found by prefix."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import CorruptArtifact, InputError
from components.runtime.store import open_store
from components.runtime.store.records import seal, unseal

RACERS = 4


def test_the_first_writer_wins(store):
    assert store.put("actions/a.json", {"x": [1, 2.5, None, "\u00e9"]})
    assert not store.put("actions/a.json", {"x": 2})
    assert store.get("actions/a.json") == {"x": [1, 2.5, None, "\u00e9"]}


def test_overwriting_is_asked_for(store):
    store.put("ledger/r/end.json", {"status": "running"})
    assert store.put("ledger/r/end.json", {"status": "failed"}, overwrite=True)
    assert store.get("ledger/r/end.json") == {"status": "failed"}


def test_an_equal_record_of_another_writer_is_still_the_others(store):
    assert [store.put("a.json", {"x": 1}) for _ in range(2)] == [True, False]


def test_a_missing_record_is_none(store):
    assert store.get("actions/none.json") is None


def test_keys_come_sorted_by_prefix_and_hold_records_only(store, folder):
    for key in ("ledger/a-b/run.json", "ledger/a/run.json", "ledger/a/stages/x.json", "actions/1.json"):
        store.put(key, {})
    store.commit("Report", folder({"deep.json": b"{}"}))

    assert list(store.keys("ledger/a/")) == ["ledger/a/run.json", "ledger/a/stages/x.json"]
    assert list(store.keys("ledger/a")) == sorted(key for key in store.keys("") if key.startswith("ledger/"))
    assert list(store.keys("")) == sorted(store.keys("")) and len(list(store.keys(""))) == 4
    assert list(store.keys("nothing/")) == []


def test_more_keys_than_fit_one_page(s3_uri, monkeypatch):
    monkeypatch.setattr("components.runtime.store.s3_listing.KEYS_IN_A_PAGE", 2)
    store = open_store(s3_uri)
    keys = [f"spool/run/{index}.json" for index in range(7)]
    assert all(store.put(key, {}) for key in keys)
    assert list(store.keys("spool/")) == keys


def test_every_flipped_byte_of_a_record_is_seen_and_its_key_named(backend):
    backend.store.put("actions/a.json", {"digest": "d"})
    data = backend.bytes("actions/a.json")
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x01
        assert unseal(bytes(changed)) is None

    backend.flip("actions/a.json")
    with pytest.raises(CorruptArtifact, match=r"actions/a\.json: .*SHA-256.*--repair"):
        backend.store.get("actions/a.json")

    backend.store.put("ledger/run-1/stages/a.json", {"x": 1})
    backend.flip("ledger/run-1/stages/a.json")
    with pytest.raises(CorruptArtifact, match=r"a\.json: .*SHA-256\. posttrain verify --repair"):
        backend.store.get("ledger/run-1/stages/a.json")


@pytest.mark.parametrize(
    "key",
    [
        "../a.json", "a/../b.json", "/a.json", "a//b.json", "./a.json", "a\\b.json", "a b.json", "a\n.json", "a/b",
        "objects/x/manifest.json", "partial/x.json", "locks/x.json", "tmp/x.json", "a.json/b.json", "",
        "x" * 1000 + ".json", "\u00e9.json",
    ],
)  # fmt: skip
def test_keys_cannot_leave_the_store_or_clash(store, key):
    for attempt in (lambda: store.put(key, {}), lambda: store.get(key)):
        with pytest.raises(InputError, match="store key"):
            attempt()


def _race(uri: str, writer: int) -> bool:
    return open_store(uri).put("actions/race.json", {"writer": writer})


def test_of_racing_processes_exactly_one_wins(store):
    with ProcessPoolExecutor(RACERS, mp_context=multiprocessing.get_context("fork")) as pool:
        for turn in range(2):
            store.blobs.delete(["actions/race.json"])
            won = list(pool.map(_race, [store.uri] * RACERS, range(RACERS)))
            assert won.count(True) == 1, turn
            assert store.get("actions/race.json") == {"writer": won.index(True)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_sealed_is_what_is_unsealed(value):
    assert unseal(seal(value)) == value
