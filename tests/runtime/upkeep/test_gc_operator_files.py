"""Operators' files in the store: kept while a run or a row names them, collected after, never taken from a job."""

from __future__ import annotations

import json
import uuid
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings

from components.contract.artifacts import ArtifactType
from components.contract.operator_files.code import OperatorCode
from components.runtime.ledger.operator_code import code_key, keep_code, stored_code
from components.runtime.ledger.records import output_record
from components.runtime.store import Store, collecting, open_store
from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.selection import Rules
from tests.runtime.upkeep.conftest import OLD
from tests.runtime.upkeep.stepping import SteppedBlobs, Turns
from tests.runtime.upkeep.test_gc import collect
from tests.runtime.upkeep.test_gc_beside_commits import HOUR, ORDERS

ALL = Rules(grace_seconds=OLD)


def code(text: str) -> OperatorCode:
    return OperatorCode(file="check.py", files={"check.py": f"def check(response, answer): return {text!r}\n"})


def record(store, run_id, *, params=(), outputs=()):
    """Write a run with one stage that ended."""
    stage = {"name": "s", "component": "curate", "after": [], "params": {"names": list(params)}}
    started = {"recipe": "r", "started": "2026-01-01T00:00:00+00:00"}
    store.put(f"ledger/{run_id}/run.json", {**started, "run_id": run_id, "stages": [stage]})
    entry = {"stage": "s", "run_id": run_id, "fingerprint": None, "cache": "miss", "inputs": {}, "gates": {}}
    made = {f"out-{place}": output for place, output in enumerate(outputs)}
    store.put(f"ledger/{run_id}/stages/s.json", {**entry, "started": started["started"], "outputs": made})
    store.put(f"ledger/{run_id}/end.json", {"status": "succeeded", "ended": started["started"], "seconds": 1.0})


def rows_that_name(store, folder, *names):
    place = folder / uuid.uuid4().hex
    place.mkdir()
    (place / "rows.jsonl").write_text("".join(json.dumps({"verifier": name}) + "\n" for name in names))
    return store.commit(ArtifactType.DATASET, place)


def kept(store):
    return {key.removeprefix("code/").removesuffix(".json") for key in store.keys("code/")}


def test_what_runs_and_rows_name_stays_and_the_rest_goes(store, tmp_path):
    by_run, told, read, lost = (code(text) for text in ("run", "told", "read", "lost"))
    keep_code(store, [by_run, told, read, lost])
    known = output_record(store, rows_that_name(store, tmp_path, told.name("check")), [told.name("check")])
    unknown = output_record(store, rows_that_name(store, tmp_path, read.name("check")))  # no record tells its verifiers
    record(store, "a-1", params=[by_run.name("check")], outputs=[known, unknown])
    found = collect(store, ALL)
    assert list(found.heaps["operator files"].units) == [lost.digest] and found.freed["operator files"] > 0
    assert kept(store) == {by_run.digest, told.digest, read.digest} and stored_code(store, lost.digest) is None
    assert stored_code(store, read.digest) == read


def test_files_go_with_the_last_run_that_names_them(store, tmp_path):
    old, both = code("old"), code("both")
    keep_code(store, [old, both])
    made = output_record(store, rows_that_name(store, tmp_path, old.name("check")))
    record(store, "a-1", params=[both.name("check")], outputs=[made])
    record(store, "a-2", params=[both.name("check")])
    collect(store, Rules(keep_last=1, undelivered=True, grace_seconds=OLD))
    assert kept(store) == {both.digest}


def test_every_file_stays_where_rows_cannot_be_read_and_while_it_is_young(store, tmp_path):
    keep_code(store, [code("lost")])
    place = tmp_path / "broken"
    place.mkdir()
    (place / "rows.jsonl").write_text('{"verifier": ')
    record(store, "a-1", outputs=[output_record(store, store.commit(ArtifactType.DATASET, place))])
    assert not find_garbage(store, ALL).heaps["operator files"].units
    record(store, "a-2")
    assert (
        not find_garbage(store, Rules(keep_last=0, undelivered=True, grace_seconds=3600)).heaps["operator files"].units
    )


def test_a_stage_that_has_begun_keeps_the_files_of_its_parameters(store):
    named = code("begun")
    keep_code(store, [named])
    event = {"inputs": {}, "params": {"verifier": named.name("check")}}
    store.put("spool/a-1/stages/s/f/started.json", event)
    collect(store, ALL)
    assert kept(store) == {named.digest}


def one_interleaving(uri, order):
    """A collector, and two jobs whose run names a file that looks unused for a day."""
    plain, wanted, lost = open_store(uri), code("wanted"), code("lost")
    keep_code(plain, [wanted, lost])
    turns = Turns(order, 3)
    store = Store(SteppedBlobs(plain.blobs, turns, {code_key(wanted.digest), code_key(lost.digest)}))

    def work(run_id):
        keep_code(store, [wanted])
        assert stored_code(store, wanted.digest) == wanted, "who kept a file has it"
        record(store, run_id, params=[wanted.name("check")])

    def gather():
        with only_collector(store):
            delete_garbage(store, find_garbage(store, HOUR), HOUR)

    errors = turns.run([gather, partial(work, "one"), partial(work, "two")])
    assert not errors
    assert stored_code(plain, wanted.digest) == wanted
    assert stored_code(plain, lost.digest) is None, "the collector did its work all the same"


@pytest.mark.parametrize("kind", ["directory", pytest.param("s3", marks=pytest.mark.slow)])
def test_a_file_that_a_job_has_kept_is_there_in_every_order(kind, tmp_path, request, monkeypatch):
    monkeypatch.setattr(collecting, "WAIT_SECONDS", 0.001)  # whoever waits here waits for the others' turns
    base = str(tmp_path / "stores") if kind == "directory" else request.getfixturevalue("s3_uri")
    examples = 40 if kind == "directory" else 25

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(order=ORDERS)
    def check(order):
        one_interleaving(f"{base}/{uuid.uuid4().hex[:8]}", order)

    check()
