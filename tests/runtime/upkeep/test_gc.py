"""The collector: what is reached stays, what is not goes, and it says how much before it does anything."""

from __future__ import annotations

import time

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.runtime.ledger.records import job_key
from components.runtime.ledger.sequence import number_run
from components.runtime.lineage.graph.graph import ancestors
from components.runtime.lineage.registry import register_model
from components.runtime.upkeep.collect import Collection, delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.pins import pin, unpin
from components.runtime.upkeep.selection import Rules
from tests.runtime.upkeep.conftest import OLD, launch, outputs

ALL_BUT_ONE = Rules(keep_last=1, undelivered=True, grace_seconds=OLD)


def collect(store, rules=ALL_BUT_ONE, registered=()) -> Collection:
    with only_collector(store):
        found = find_garbage(store, rules, registered)
        delete_garbage(store, found, rules)
    return found


def keys(store) -> list[str]:
    return [blob.key for blob in store.blobs.list("")]


def folder_with(tmp_path, name, data=b"x" * 1000):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "w").write_bytes(data)
    return folder


def test_a_store_that_only_holds_what_runs_reach_loses_nothing(store, run):
    run(store, "a-1")
    before = keys(store)
    found = collect(store, Rules(grace_seconds=OLD))
    assert keys(store) == before
    assert {kind: len(heap.units) for kind, heap in found.heaps.items()} == dict.fromkeys(found.heaps, 0)


def test_a_dry_run_tells_and_changes_nothing(store, run, tmp_path):
    run(store, "a-1")
    lost = store.commit(ArtifactType.MODEL, folder_with(tmp_path, "lost")).digest
    before = keys(store)
    found = find_garbage(store, Rules(grace_seconds=OLD))
    assert list(found.heaps["artifacts"].units) == [lost] and found.heaps["artifacts"].size > 1000
    assert keys(store) == before


def test_all_but_the_last_run_of_each_recipe_goes_with_what_only_it_reached(store, run):
    number_run(store, "a-1")
    old = run(store, "a-1", steps=2, started=1e9)
    number_run(store, "a-2")
    new = run(store, "a-2", steps=5, started=1e9 + 10)
    other = run(store, "b-1", steps=9, started=1e9 - 10, recipe="other")
    found = collect(store)
    assert found.selection.gone == ["a-1"] and found.freed["artifacts"] > 0
    assert not [key for key in keys(store) if "a-1" in key or old["fingerprint"] in key]
    assert set(store.digests()) >= outputs(new) | outputs(other) and not outputs(old) & set(store.digests())
    assert collect(store).freed == dict.fromkeys(found.freed, 0)


def test_what_was_collected_is_simply_made_again(store, run):
    first = run(store, "a-1", steps=2)
    run(store, "a-2", steps=5, started=1e9 + 10)
    collect(store)
    again = run(store, "a-3", steps=2, started=1e9 + 20)
    assert (again["cache"], again["outputs"]) == ("miss", first["outputs"])


def test_age_counts_from_the_end_and_both_rules_must_agree(store, run):
    run(store, "a-1", steps=2, started=time.time() - 40 * 86400)
    run(store, "a-2", steps=5, started=time.time() - 3600)
    month = {"older_than_seconds": 30 * 86400.0, "undelivered": True, "grace_seconds": OLD}
    assert find_garbage(store, Rules(**month)).selection.gone == ["a-1"]
    assert find_garbage(store, Rules(**month, keep_last=2)).selection.gone == []
    assert find_garbage(store, Rules(keep_last=0, undelivered=True, grace_seconds=OLD)).selection.gone == ["a-1", "a-2"]


def test_pinned_runs_and_artifacts_stay(store, run):
    first, second = run(store, "a-1", steps=2), run(store, "a-2", steps=5, started=1e9 + 1)
    run(store, "a-3", steps=9, started=1e9 + 2)
    assert pin(store, "runs", "a-1") and not pin(store, "runs", "a-1")
    model = second["outputs"]["model"]["digest"]
    pin(store, "artifacts", model)
    assert collect(store).selection.gone == ["a-2"]
    assert outputs(first) | {model} <= set(store.digests())
    assert second["outputs"]["metrics"]["digest"] not in set(store.digests())
    graph = ancestors(store, model)
    assert [node["stage"] for node in graph.of_kind("stage")] == ["second", "first"], "its lineage is still told"

    assert unpin(store, "runs", "a-1") and unpin(store, "artifacts", model) and not unpin(store, "runs", "a-1")
    collect(store)
    assert not (outputs(first) | {model}) & set(store.digests())
    with pytest.raises(InputError, match="nothing to keep"):
        pin(store, "artifacts", model)


def test_registered_models_stay_with_their_lineage(store, run):
    entry = run(store, "a-1", steps=2)
    theirs = run(store, "a-2", steps=5, started=1e9 + 1)["outputs"]["model"]["digest"]
    model = entry["outputs"]["model"]["digest"]
    register_model(store, "ours", model, run_id="a-1", stage="second", metrics={}, aliases=["champion"])
    collect(store, Rules(keep_last=0, undelivered=True, grace_seconds=OLD), registered=[theirs])
    assert {model, theirs} == set(store.digests())
    graph = ancestors(store, "ours@champion")
    assert [node["stage"] for node in graph.of_kind("stage")] == ["second", "first"]
    assert [node["stored"] for node in graph.of_kind("artifact")] == [True, False]


def test_a_run_stays_until_its_lineage_is_delivered(store, run):
    run(store, "a-1")
    run(store, "a-2", steps=5, started=1e9 + 1)
    rules = Rules(keep_last=1, grace_seconds=OLD)
    assert find_garbage(store, rules).selection.undelivered == ["a-1"]
    store.put("delivered/a-1/x.json", {"delivered": list(store.keys("spool/a-1/")), "refused": {}})
    assert find_garbage(store, rules).selection.gone == ["a-1"]


def test_young_things_and_runs_at_work_stay(store, run, tmp_path):
    run(store, "a-1")
    run(store, "a-2", steps=5, started=1e9 + 1)
    store.commit(ArtifactType.MODEL, folder_with(tmp_path, "young"))
    hour = Rules(keep_last=1, undelivered=True, grace_seconds=3600)
    found = find_garbage(store, hour)
    assert found.selection.working == ["a-1"] and not any(heap.units for heap in found.heaps.values())
    with store.lock("run-a-1", wait_seconds=0):
        assert find_garbage(store, ALL_BUT_ONE).selection.working == ["a-1"]
    mark = store.get("ledger/a-1/stages/second.json")["fingerprint"]
    with store.lock(f"job-{mark}", wait_seconds=0):
        assert find_garbage(store, ALL_BUT_ONE).selection.working == ["a-1"]


def test_partial_checkpoints_of_finished_and_unwanted_work_go(store, run, tmp_path):
    mark = run(store, "a-1")["fingerprint"]
    for name in (mark, "unwanted", "working"):
        store.partials(name).save(1, folder_with(tmp_path, name))
    store.put("spool/a-1/stages/third/wanted/started.json", {"inputs": {}, "outputs": {}})
    store.partials("wanted").save(1, folder_with(tmp_path, "wanted"))
    with store.lock("job-working", wait_seconds=0):
        collect(store, Rules(grace_seconds=OLD))
    assert sorted({key.split("/")[1] for key in keys(store) if key.startswith("partial/")}) == ["wanted", "working"]


def test_the_inputs_of_a_stage_at_work_stay(store, run, tmp_path):
    digest = store.commit(ArtifactType.MODEL, folder_with(tmp_path, "in")).digest
    run(store, "a-1")
    item = {"type": "Model", "digest": digest, "source": "s3://bucket/x"}
    store.put("spool/a-1/stages/third/f/started.json", {"inputs": {"model": [item]}})
    collect(store, Rules(grace_seconds=OLD))
    assert digest in set(store.digests())


@pytest.mark.parametrize(
    "status, stays", [("waiting", True), ("failed", True), ("stopped", True), ("succeeded", False)]
)
def test_local_data_of_a_run_that_may_be_resumed_stays(store, run, tmp_path, status, stays):
    """Its files lie on a client's machine: nobody else could put them into the store again."""
    digest = store.commit(ArtifactType.FILES, folder_with(tmp_path, "sent")).digest
    run(store, "a-1")
    job = store.get(job_key("a-1", "second")) or {}
    store.put(job_key("a-1", "second"), {**job, "uploaded": {"/home/ann/rows": digest}}, overwrite=True)
    ended = {"status": status, "ended": "2026-01-01T00:00:00+00:00", "seconds": 1.0}
    store.put("ledger/a-1/end.json", ended, overwrite=True)
    collect(store, Rules(grace_seconds=OLD))
    assert (digest in set(store.digests())) is stays


def test_leftovers_of_interrupted_commits_go(store, run):
    run(store, "a-1")
    store.blobs.write(f"objects/{'0' * 64}/files/w", b"half")
    store.blobs.write(f"collecting/{'0' * 64}", b"")
    before = len(keys(store))
    found = collect(store, Rules(grace_seconds=OLD))
    assert len(found.heaps["leftovers"].units) == 1 and len(keys(store)) == before - 2


def test_nothing_is_collected_where_a_record_is_damaged(store, run):
    run(store, "a-1")
    store.blobs.write("ledger/a-1/stages/first.json", b"{}")
    with pytest.raises(InputError, match=r"ledger/a-1/stages/first\.json.*posttrain verify --repair first"):
        find_garbage(store, Rules(grace_seconds=OLD))


def test_a_second_collector_is_refused(store, monkeypatch):
    monkeypatch.setattr("components.runtime.upkeep.collect.LOCK_WAIT_SECONDS", 0.0)
    with only_collector(store), pytest.raises(InputError, match="going on already"), only_collector(store):
        pass


def test_what_came_into_use_after_the_dry_look_is_spared(store, run, tmp_path):
    entry = run(store, "a-1", steps=2)
    run(store, "a-2", steps=5, started=1e9 + 1)
    with only_collector(store):
        found = find_garbage(store, ALL_BUT_ONE)
        run(store, "a-3", steps=2, started=1e9 + 2)  # reuses what the run that goes had made
        delete_garbage(store, found, ALL_BUT_ONE)
    assert outputs(entry) <= set(store.digests()) and found.spared
    assert launch is not None and store.fetch(entry["outputs"]["model"]["digest"]).is_dir()
