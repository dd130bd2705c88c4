"""Kept checkpoints and forks of a stage that can be followed by hand: what is shared, refused, left after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StageFailed, StoreUnavailable
from components.contract.forking import Held
from components.contract.job import Fork, Job, StageRef
from components.contract.registry import components
from components.runtime.checkpoints import kept
from components.runtime.checkpoints.kept import find_kept, kept_steps
from components.runtime.job.launch import Launch
from components.runtime.ledger.records import run_key
from components.runtime.store import Store, open_store
from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
from components.runtime.upkeep.selection import Rules
from tests.support import counting_stage
from tests.support.counting_stage import CountParams
from tests.support.partials import newest_partial

MakeJob = Callable[..., Job]


def refuses_odd(before: CountParams, now: CountParams, held: Held) -> Iterator[str]:
    """Refuse an odd number of steps, and what ends before the checkpoint."""
    if now.steps % 2:
        yield f"steps {before.steps} became {now.steps}, which is odd"
    if now.steps <= held.step or not held.has("state"):
        yield f"steps {now.steps} end before it"


CHOOSY = replace(counting_stage.COMPONENT, name="choosy-for-test", forks=f"{__name__}:refuses_odd")


@pytest.fixture(autouse=True)
def registered() -> None:
    components().add("count-for-test", "tests.support.counting_stage:COMPONENT", origin="test")
    components().add("choosy-for-test", f"{__name__}:CHOOSY", origin="test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def job(tmp_path: Path, store: Store) -> MakeJob:
    def make(run_id: str = "parent", *, steps: int = 6, fail_at: int = 0, **fields: Any) -> Job:
        params = {"steps": steps, "fail_at": fail_at, "journal": str(tmp_path / "journal")}
        plain = {"component": "count-for-test", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri}
        stages = [{"name": "count"}, {"name": "late"}]
        store.put(run_key(run_id), {"run_id": run_id, "recipe": "test", "stages": stages})
        return Job.model_validate({**plain, "run_id": run_id, "stage": "count", "params": params, **fields})

    return make


def launch(job: Job) -> dict[str, Any]:
    return Launch(job, lambda event: None).run()


def fork(step: int, run: str = "parent") -> Fork:
    return Fork(run=run, step=step)


def steps_done(tmp_path: Path) -> list[int]:
    path = tmp_path / "journal"
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def digests(entry: dict[str, Any]) -> dict[str, str]:
    return {port: output["digest"] for port, output in entry["outputs"].items()}


def test_every_nth_checkpoint_outlives_its_stage(job: MakeJob, store: Store) -> None:
    entry = launch(job(keep_partial=2))
    mark = entry["fingerprint"]
    assert kept_steps(store, mark) == [2, 4, 6]
    assert newest_partial(store, mark) is None, "the stage's own are gone, as ever"
    found = find_kept(store, mark, 4)
    assert found is not None and (found.run_id, found.stage, found.parts["params"]["steps"]) == ("parent", "count", 6)
    assert json.loads((store.fetch(found.digest) / "stage" / "state.json").read_text()) == [4, 10]


def test_neither_key_is_in_jobs_or_fingerprints_that_do_not_use_it(job: MakeJob, store: Store) -> None:
    plain = job()
    assert not {"fork", "keep_partial"} & plain.model_dump(mode="json").keys()
    marks = {launch(job(run, keep_partial=every))["fingerprint"] for run, every in (("a", None), ("b", 3))}
    assert len(marks) == 1
    assert not kept_steps(store, marks.pop()), "the second one was cached, and made nothing"


def test_a_fork_without_a_change_ends_in_the_same_bytes(job: MakeJob, store: Store, tmp_path: Path) -> None:
    parent = launch(job(keep_partial=2))
    forked = launch(job("forked", fork=fork(4)))
    assert digests(forked) == digests(parent)
    assert forked["fingerprint"] != parent["fingerprint"]
    assert steps_done(tmp_path) == [1, 2, 3, 4, 5, 6, 5, 6]
    record = forked["fork"]
    assert (record["run_id"], record["stage"], record["step"]) == ("parent", "count", 4)
    assert record["fingerprint"] == parent["fingerprint"]
    events = [store.get(key) for key in store.keys("spool/forked/stages/count/")]
    rows = [row for event in events if event and event["kind"] == "metric_chunk" for row in event["rows"]]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6], "its curves begin where the forked run began"


def test_a_fork_goes_on_differently_and_is_cached(job: MakeJob, store: Store, tmp_path: Path) -> None:
    launch(job(keep_partial=2))
    first = launch(job("first", steps=8, fork=fork(4)))
    assert first["metrics"] == {"total": 36.0}
    second = launch(job("second", steps=8, fork=fork(4)))
    assert (second["cache"], second["fork"]) == ("hit", first["fork"])
    other = launch(job("other", steps=8, fork=fork(2)))
    assert other["cache"] == "miss", "another step is other work"
    assert digests(other) == digests(first)


def test_a_fork_of_a_fork(job: MakeJob) -> None:
    parent = launch(job(keep_partial=2))
    launch(job("first", fork=fork(2), keep_partial=4))
    assert digests(launch(job("second", fork=fork(4, "first")))) == digests(parent)


def test_a_stage_that_failed_or_was_killed_can_be_forked_at_what_it_kept(job: MakeJob) -> None:
    with pytest.raises(StageFailed):
        launch(job(fail_at=5, keep_partial=2))
    assert launch(job("forked", steps=8, fork=fork(4)))["metrics"] == {"total": 36.0}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fork": fork(3)}, "kept no checkpoint of step 3; the nearest is count@2 (kept: 2, 4, 6)"),
        ({"fork": fork(100)}, "the nearest is count@6"),
        ({"fork": fork(4), "seed": 1}, "seed 0 became 1"),
        ({"fork": fork(4, "parnt")}, "no run 'parnt' in"),
        ({"fork": fork(4), "stage": "late"}, "stage 'late' of run parent has not begun"),
        ({"fork": fork(4), "stage": "cuont"}, "is none of its stages; did you mean 'count'?"),
    ],
)
def test_what_cannot_be_forked_is_told_in_one_line(job: MakeJob, changes: dict[str, Any], told: str) -> None:
    launch(job(keep_partial=2))
    with pytest.raises(InputError) as caught:
        launch(job("forked", **changes))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_input_shares_nothing(job: MakeJob, store: Store) -> None:
    launch(job(keep_partial=2))
    launch(job("forked", stage="first", steps=2))
    with pytest.raises(InputError, match=r"its input before, made by first, is another one"):
        launch(job("forked", fork=fork(4), inputs={"before": [StageRef(stage="first", port="model")]}))


def test_a_run_that_kept_nothing_says_how_to_keep(job: MakeJob) -> None:
    launch(job())
    with pytest.raises(InputError, match="kept no checkpoint at all: set `keep_partial: every N`"):
        launch(job("forked", fork=fork(4)))


def test_the_component_says_which_parameters_fit(job: MakeJob) -> None:
    launch(job(component="choosy-for-test", keep_partial=2))
    with pytest.raises(InputError, match="cannot go on from step 4 of run parent: steps 6 became 7, which"):
        launch(job("odd", component="choosy-for-test", steps=7, fork=fork(4)))
    with pytest.raises(InputError, match="steps 2 end before it"):
        launch(job("short", component="choosy-for-test", steps=2, fork=fork(4)))
    assert launch(job("even", component="choosy-for-test", steps=8, fork=fork(4)))["metrics"] == {"total": 36.0}


def test_a_fork_that_failed_goes_on_from_its_own_checkpoint(job: MakeJob, tmp_path: Path) -> None:
    parent = launch(job(keep_partial=2))
    with pytest.raises(StageFailed):
        launch(job("forked", fail_at=6, fork=fork(2)))
    again = launch(job("forked", fail_at=6, fork=fork(2)))
    assert steps_done(tmp_path)[6:] == [3, 4, 5, 6]
    assert again["outputs"]["model"] == parent["outputs"]["model"]


def test_a_kill_before_a_checkpoint_is_kept_loses_none(
    job: MakeJob, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(StageFailed):
        patched.setattr(kept.Keeper, "keep", _die)
        launch(job(keep_partial=2))
    assert kept_steps(store, launch(job(keep_partial=2))["fingerprint"]) == [2, 4, 6]


def _die(*_: object) -> None:
    raise StageFailed("killed here")


def test_a_fork_never_does_the_steps_before_it(job: MakeJob, store: Store, tmp_path: Path) -> None:
    launch(job(keep_partial=2))
    with pytest.raises(StageFailed):
        launch(job("forked", fail_at=5, fork=fork(4)))
    (mark,) = [path.name for path in Path(store.uri, "partial").iterdir() if any(path.glob("*/manifest.json"))]
    for piece in Path(store.uri, "partial", mark, "pieces").iterdir():
        piece.chmod(0o644)
        piece.write_bytes(b"damaged")
    before = len(steps_done(tmp_path))
    with pytest.raises(StoreUnavailable, match="was damaged; run again"):
        launch(job("forked", fail_at=5, fork=fork(4)))
    assert launch(job("forked", fail_at=5, fork=fork(4)))["metrics"] == {"total": 21.0}
    assert steps_done(tmp_path)[before:] == [5, 6]


def test_the_collector_keeps_them_as_long_as_a_run_has_the_work(job: MakeJob, store: Store) -> None:
    mark = launch(job(keep_partial=2))["fingerprint"]
    _collect(store)
    found = find_kept(store, mark, 4)
    assert found is not None and store.has(found.digest)
    store.blobs.delete(list(store.blobs.keys("ledger/parent/")) + list(store.blobs.keys("spool/parent/")))
    _collect(store)
    assert not kept_steps(store, mark)
    assert not store.has(found.digest)


def test_the_collector_keeps_what_an_unfinished_fork_needs(job: MakeJob, store: Store) -> None:
    mark = launch(job(keep_partial=2))["fingerprint"]
    store.put(run_key("forked"), {"run_id": "forked", "fork": {"run": "parent", "stage": "count", "step": 4}})
    _collect(store)
    assert kept_steps(store, mark) == [2, 4, 6]


def test_in_a_bucket_all_is_the_same(tmp_path: Path, s3_uri: str) -> None:
    store = open_store(s3_uri)
    params = {"steps": 6, "journal": str(tmp_path / "journal")}
    plain = {"component": "count-for-test", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri}
    entries = []
    for run_id, more in (("parent", {"keep_partial": 2}), ("forked", {"fork": fork(4)})):
        store.put(run_key(run_id), {"run_id": run_id, "recipe": "test", "stages": [{"name": "count"}]})
        job = Job.model_validate({**plain, "run_id": run_id, "stage": "count", "params": params, **more})
        entries.append(launch(job))
    assert digests(entries[1]) == digests(entries[0])
    assert steps_done(tmp_path) == [1, 2, 3, 4, 5, 6, 5, 6]
    _collect(store)
    assert kept_steps(store, entries[0]["fingerprint"]) == [2, 4, 6]


def _collect(store: Store) -> None:
    rules = Rules(grace_seconds=0.0)
    with only_collector(store):
        delete_garbage(store, find_garbage(store, rules), rules)
