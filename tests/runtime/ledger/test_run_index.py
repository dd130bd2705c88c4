"""Runs of a bucket: few requests, an index that is only ever a shortcut, and damage that shows all the same."""

from __future__ import annotations

import pytest

from components.contract.errors import CorruptArtifact, StoreUnavailable
from components.runtime.ledger import run_index
from components.runtime.ledger.ledger import Ledger, load_run
from components.runtime.ledger.mentions import Mentions
from components.runtime.ledger.run_list import list_runs, newest_runs
from components.runtime.ledger.shown import show_json
from components.runtime.lineage.graph.graph import ancestors, descendants
from components.runtime.store import Store, open_store
from tests.benchmarks.bench_listing import counted_calls
from tests.conftest import BUCKET
from tests.support.full_store import FullStore
from tests.support.s3_server import in_memory_writer

RUNS = 11
FRESH = 2


@pytest.fixture
def full(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> FullStore:
    """A bucket with many runs, for numbers that are smaller than the real ones."""
    monkeypatch.setattr(run_index, "WORTH_WRITING", 5)
    monkeypatch.setattr("components.runtime.ledger.run_list.SHOWN_AS_THEY_ARE", FRESH)
    full = FullStore(in_memory_writer(BUCKET, s3_uri.removeprefix(f"s3://{BUCKET}/")), s3_uri)
    full.fill(RUNS)
    return full


@pytest.fixture
def bucket(full: FullStore, s3_uri: str) -> Store:
    """The store of `full`."""
    return open_store(s3_uri)


def spoil(store: Store, key: str) -> None:
    data = store.blobs.read(key)
    assert data is not None
    store.blobs.write(key, data.replace(b"full", b"fool", 1))


def users(full: FullStore, run_id: str, s3_uri: str) -> dict[str, list[str]]:
    graph = descendants(open_store(s3_uri), full.outputs[run_id, "base"]["digest"])
    return {kind: sorted(node["id"] for node in graph.of_kind(kind)) for kind in ("stage", "artifact")}


def test_what_is_shown_is_what_is_asked_for(full: FullStore, bucket: Store) -> None:
    with counted_calls() as count:
        rows, total = newest_runs(bucket, FRESH)
    assert (total, [row["run_id"] for row in rows]) == (RUNS, full.run_ids[: RUNS - FRESH - 1 : -1])
    assert len(count) <= 3 * FRESH + 4
    with counted_calls() as count:
        run = show_json(load_run(bucket, full.run_ids[3]))
    assert [stage["status"] for stage in run["stages"]] == ["done"] * 10
    assert len(count) <= 2 + 12  # the jobs are left alone
    with counted_calls() as count:
        graph = ancestors(bucket, f"{full.run_ids[3]}:second.model")
    assert len(graph.of_kind("stage")) == 9
    assert len(count) <= 2 + 12 + 20 + 10


def test_the_index_is_made_when_it_is_worth_it_and_spares_the_reading(full: FullStore, bucket: Store) -> None:
    first = list_runs(bucket)
    with counted_calls() as count:
        assert list_runs(open_store(bucket.uri)) == first
    assert len(count) <= 3 * FRESH + 4
    assert [row["run_id"] for row in first] == full.run_ids[::-1]
    assert {row["ended_stages"] for row in first} == {10}


def test_with_and_without_the_index_lineage_is_the_same(full: FullStore, bucket: Store) -> None:
    middle = full.run_ids[9]  # the first stage of the next run reuses its own
    without = users(full, middle, bucket.uri)
    assert bucket.get(run_index.KEY) is not None
    assert users(full, middle, bucket.uri) == without
    assert len(without["stage"]) == 18
    with counted_calls() as count:
        users(full, middle, bucket.uri)
    assert len(count) < 150


def test_runs_that_the_index_does_not_know_are_read(full: FullStore, bucket: Store) -> None:
    list_runs(bucket)
    full.add("full-later", 2e9)
    assert list_runs(open_store(bucket.uri))[0]["run_id"] == "full-later"
    assert len(users(full, "full-later", bucket.uri)["stage"]) >= 9


def test_a_run_that_may_go_on_is_never_in_the_index(full: FullStore, bucket: Store) -> None:
    run_id = full.run_ids[0]
    bucket.put(f"ledger/{run_id}/end.json", {"status": "failed", "ended": "", "seconds": 1.0}, overwrite=True)
    assert list_runs(bucket)[-1]["status"] == "failed"
    assert run_id not in (bucket.get(run_index.KEY) or {})["runs"]
    bucket.put(f"ledger/{run_id}/end.json", {"status": "succeeded", "ended": "", "seconds": 2.0}, overwrite=True)
    assert list_runs(open_store(bucket.uri))[-1]["status"] == "succeeded"


def test_a_run_that_is_gone_is_gone_from_the_list(full: FullStore, bucket: Store) -> None:
    list_runs(bucket)
    bucket.blobs.delete(list(bucket.blobs.keys(f"ledger/{full.run_ids[0]}/")))
    assert full.run_ids[0] not in [row["run_id"] for row in list_runs(open_store(bucket.uri))]


def test_a_damaged_index_and_one_of_another_form_are_made_again(full: FullStore, bucket: Store) -> None:
    expected = list_runs(bucket)
    bucket.blobs.write(run_index.KEY, b"{}")
    assert list_runs(open_store(bucket.uri)) == expected
    bucket.put(run_index.KEY, {"format": 99, "runs": {"ghost": {}}}, overwrite=True)
    assert list_runs(open_store(bucket.uri)) == expected
    assert (bucket.get(run_index.KEY) or {})["format"] == run_index.FORMAT


def test_who_may_only_read_does_without(full: FullStore, bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise StoreUnavailable("AccessDenied")

    monkeypatch.setattr(bucket.blobs, "write", refused)
    assert len(list_runs(bucket)) == RUNS
    assert bucket.get(run_index.KEY) is None


def test_damage_shows_though_the_index_knows_the_run(full: FullStore, bucket: Store) -> None:
    list_runs(bucket)
    newest, middle = full.run_ids[-1], full.run_ids[9]
    spoil(bucket, f"ledger/{newest}/run.json")
    spoil(bucket, f"ledger/{middle}/stages/sft.json")
    again = Ledger(open_store(bucket.uri))
    assert newest_runs(again.store, 1)[0][0]["run_id"] == newest
    run = load_run(open_store(bucket.uri), middle)
    assert list(run.damaged) == ["sft"]
    with pytest.raises(CorruptArtifact):
        again.stage(middle, "sft")
    digest = full.outputs[middle, "curate"]["digest"]
    assert [entry["stage"] for entry in Mentions(again).entries(digest)] == ["curate"]
    assert f"ledger/{middle}/stages/sft.json" in again.damaged
