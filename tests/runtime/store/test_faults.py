"""S3 that fails: refused, dropped, silent, cut and lost requests through a real proxy."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import StoreUnavailable
from components.runtime.store import Store, open_store
from components.runtime.store.s3 import S3Blobs
from components.runtime.store.s3_calls import S3Calls
from tests.support.fault_proxy import FAULTS
from tests.support.partials import newest_partial

ROUNDS = 5


def content(store, digest):
    root = store.fetch(digest)
    return {path.name: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def impatient(uri: str, patience: float = 0.2, read: float = 20.0) -> Store:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return Store(S3Blobs(bucket, prefix, S3Calls(bucket, uri, patience_seconds=patience, read_seconds=read)))


def test_with_a_tenth_of_all_requests_failing_everything_is_the_same(fault_proxy, s3_uri, folder, tmp_path):
    calm = open_store(str(tmp_path / "calm"))
    proxy = fault_proxy(share=0.1, seed=3, hang_seconds=0.2)
    store = open_store(s3_uri)
    for turn in range(ROUNDS):
        files = {f"file-{part}": f"{turn}-{part}".encode() * 999 for part in range(4)}
        digest = store.commit(ArtifactType.MODEL, folder(files), {"turn": turn}).digest
        assert digest == calm.commit(ArtifactType.MODEL, folder(files), {"turn": turn}).digest
        assert content(store, digest) == files
        assert store.put(f"actions/{turn}.json", {"digest": digest})
        assert not store.put(f"actions/{turn}.json", {"digest": "other"})
        assert store.get(f"actions/{turn}.json") == {"digest": digest}
        with store.lock(f"job-{turn}", wait_seconds=5):
            store.partials("fp").save(turn, folder(files))
        assert newest_partial(store, "fp")[0] == turn

    assert list(store.keys("")) == [f"actions/{turn}.json" for turn in range(ROUNDS)]
    assert sorted(store.digests()) == sorted(calm.digests())
    assert sum(proxy.injected.values()) > 10 and len(proxy.injected) > 3


@pytest.mark.parametrize("fault", FAULTS)
def test_reading_survives_each_fault(fault_proxy, s3_uri, folder, fault):
    files = {"weights": b"0123456789" * 5000}
    digest = open_store(s3_uri).commit(ArtifactType.MODEL, folder(files)).digest
    proxy = fault_proxy(share=0, hang_seconds=0.1)
    proxy.plan(fault, path="weights", times=3)
    assert content(open_store(s3_uri), digest) == files
    assert proxy.injected == {fault: 3}


def test_a_lost_answer_to_a_conditional_write_still_wins(fault_proxy, s3_uri):
    proxy = fault_proxy(share=0)
    proxy.plan("lost", method="PUT")
    store = open_store(s3_uri)
    assert store.put("actions/a.json", {"who": 1})
    assert not store.put("actions/a.json", {"who": 2})
    assert proxy.injected["lost"] == 1


def test_racing_writers_with_lost_answers_still_have_one_winner(fault_proxy, s3_uri):
    fault_proxy(share=0.3, seed=5, kinds=["lost", "drop"])
    store = open_store(s3_uri)
    with ThreadPoolExecutor(4) as pool:
        for turn in range(3):
            won = list(pool.map(lambda who, turn=turn: store.put(f"{turn}.json", {"who": who}), range(4)))
            assert won.count(True) == 1
            assert store.get(f"{turn}.json") == {"who": won.index(True)}


def test_a_large_file_goes_in_parts_and_survives_faults(fault_proxy, s3_uri, folder, monkeypatch):
    monkeypatch.setattr("components.runtime.store.s3.PART_BYTES", 5 << 20)  # the least that S3 allows
    files = {"weights": bytes(range(256)) * (12 << 12), "config": b"{}"}  # 12 MiB
    proxy = fault_proxy(share=0, seed=1)
    proxy.plan("error503", method="PUT", path="weights")
    proxy.plan("truncate", method="GET", path="weights")
    store = open_store(s3_uri)
    digest = store.commit(ArtifactType.MODEL, folder(files)).digest
    assert content(store, digest) == files
    assert proxy.injected == {"error503": 1, "truncate": 1}


def test_a_server_that_says_nothing_is_given_up_in_time(fault_proxy, s3_uri):
    fault_proxy(share=1, kinds=["hang"], hang_seconds=30)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="Read timeout"):
        impatient(s3_uri, read=0.2).get("a.json")
    assert time.monotonic() - started < 20


def test_an_unreachable_endpoint_is_told_with_what_to_do(s3_uri, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match=r"'posttrain-tests' at http://127\.0\.0\.1:9 .*Check that the endpoint"):
        impatient(s3_uri).put("a.json", {})


def test_a_missing_bucket_is_told_at_once(s3_uri):
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"bucket 'nowhere'.*does not exist.*Check"):
        open_store("s3://nowhere/x").get("a.json")
    assert time.monotonic() - started < 5


def test_missing_credentials_are_told_at_once(s3_uri, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreUnavailable, match=r"Unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        open_store(s3_uri).get("a.json")


def test_a_cut_record_is_read_again(fault_proxy, s3_uri):
    open_store(s3_uri).put("a.json", {"x": "y" * 1000})
    proxy = fault_proxy(share=0)
    proxy.plan("truncate", method="GET", path="a.json", times=2)
    assert open_store(s3_uri).get("a.json") == {"x": "y" * 1000}
    assert proxy.injected["truncate"] == 2
