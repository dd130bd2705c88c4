"""The launcher's eight steps: reuse, resume, gates, failures, and what each leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.contract.errors import GateFailed, InputError, StageFailed
from components.contract.job import FirstOf, Job, StageRef
from components.contract.registry import components
from components.runtime.job.launch import Launch
from components.runtime.ledger.records import failure_key, stage_key
from components.runtime.store import Store, open_store
from tests.support.partials import newest_partial

MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def registered() -> None:
    for name, attribute in (("count-for-test", "COMPONENT"), ("needy-for-test", "NEEDY")):
        components().add(name, f"tests.support.counting_stage:{attribute}", origin="test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def job(tmp_path: Path, store: Store) -> MakeJob:
    def make(stage: str = "count", run_id: str = "run-1", *, steps: int = 4, fail_at: int = 0, **fields: Any) -> Job:
        params = {"steps": steps, "fail_at": fail_at, "journal": str(tmp_path / "journal")}
        plain = {"component": "count-for-test", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri}
        return Job.model_validate({**plain, "run_id": run_id, "stage": stage, "params": params, **fields})

    return make


def launch(job: Job) -> dict[str, Any]:
    return Launch(job, lambda event: None).run()


def journal(tmp_path: Path) -> list[str]:
    path = tmp_path / "journal"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def spooled_rows(store: Store, run_id: str = "run-1") -> list[dict[str, float]]:
    events = [store.get(key) for key in store.keys(f"spool/{run_id}/stages/count/")]
    return [row for event in events if event and event["kind"] == "metric_chunk" for row in event["rows"]]


def test_a_stage_leaves_artifact_action_and_ledger_entry(job: MakeJob, store: Store) -> None:
    entry = launch(job())
    assert (entry["status"], entry["cache"], entry["metrics"]) == ("done", "miss", {"total": 10.0})
    assert (store.fetch(entry["outputs"]["model"]["digest"]) / "sum.json").read_text() == "10"
    action = store.get(f"actions/{entry['fingerprint']}.json")
    assert action is not None
    assert action["parts"]["params"]["steps"] == 4
    assert "tests/support/counting_stage.py" in action["parts"]["code"]
    assert store.get(stage_key("run-1", "count")) == entry
    assert newest_partial(store, entry["fingerprint"]) is None
    assert not list((Path(store.uri) / "scratch").iterdir())


def test_another_run_reuses_it_and_says_who_made_it(job: MakeJob, store: Store, tmp_path: Path) -> None:
    first = launch(job())
    again = launch(job("other", "run-2"))
    assert (again["cache"], again["outputs"]) == ("hit", first["outputs"])
    assert again["produced_by"] == {"run_id": "run-1", "stage": "count"}
    assert len(journal(tmp_path)) == 4


def test_a_damaged_action_is_made_again_from_what_the_ledger_and_the_spool_tell(
    job: MakeJob, store: Store, tmp_path: Path
) -> None:
    first = launch(job())
    key = f"actions/{first['fingerprint']}.json"
    before, path = store.get(key), Path(store.uri) / key
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-9])
    again = launch(job("other", "run-2"))
    assert (again["cache"], again["outputs"], len(journal(tmp_path))) == ("hit", first["outputs"], 4)
    assert store.get(key) == before


def test_two_runs_at_once_share_one_execution(job: MakeJob, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        entries = list(pool.map(launch, [job(run_id="run-1"), job(run_id="run-2")]))
    assert sorted(entry["cache"] for entry in entries) == ["hit", "miss"]
    assert len(journal(tmp_path)) == 4


def test_a_failed_stage_goes_on_from_its_checkpoint_and_tells_each_row_once(
    job: MakeJob, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(StageFailed, match="stage 'count': RuntimeError: the disk fell off"):
        launch(job(fail_at=3))
    failure = store.get(failure_key("run-1", "count"))
    assert failure is not None
    assert failure["error"] == "RuntimeError: the disk fell off"
    assert [row["step"] for row in spooled_rows(store)] == [1, 2]
    entry = launch(job(fail_at=3))
    assert entry["metrics"] == {"total": 10.0}
    assert journal(tmp_path) == [f"count {step}" for step in (1, 2, 3, 4)]
    assert spooled_rows(store) == [{"step": s, "total": s * (s + 1) / 2} for s in (1, 2, 3, 4)]


def test_a_kill_between_action_record_and_ledger_entry_is_no_cache_hit(job: MakeJob, store: Store) -> None:
    first = launch(job())
    Path(store.uri, stage_key("run-1", "count")).unlink()
    again = launch(job())
    assert (again["cache"], again["outputs"]) == ("miss", first["outputs"])


def test_a_result_that_was_deleted_is_made_anew(job: MakeJob, store: Store) -> None:
    """What the message on a damaged artifact tells people to do has to work, in the same run and in another."""
    first = launch(job())
    for run_id in ("run-1", "run-2"):
        store.delete(first["outputs"]["model"]["digest"])
        again = launch(job(run_id=run_id))
        assert again["outputs"] == first["outputs"]
        assert store.fetch(first["outputs"]["model"]["digest"]).is_dir()


def test_a_component_that_exits_has_failed(job: MakeJob) -> None:
    leaving = job()
    leaving.params["exit_code"] = 0
    with pytest.raises(StageFailed, match=r"called exit\(0\)"):
        launch(leaving)


def test_inputs_come_from_the_run_ledger(job: MakeJob) -> None:
    launch(job())
    after = job("after", inputs={"before": [StageRef(stage="count", port="model")]}, steps=1)
    assert launch(after)["metrics"] == {"total": 11.0}
    with pytest.raises(StageFailed, match="'after' needs 'count', which has not ended in run run-9"):
        launch(after.model_copy(update={"run_id": "run-9"}))


def test_a_condition_that_does_not_hold_skips_the_stage_and_what_needs_it(job: MakeJob) -> None:
    launch(job())
    assert launch(job("kept", when="count.total > 9", steps=2))["status"] == "done"
    skipped = launch(job("skipped", when="count.total > 10", steps=3))
    assert (skipped["status"], skipped["error"]) == ("skipped", "when 'count.total > 10' does not hold")
    needs = {"inputs": {"before": [StageRef(stage="skipped", port="model")]}, "steps": 5}
    needy = launch(job("needy", component="needy-for-test", **needs))
    assert (needy["status"], needy["error"]) == ("skipped", "its input before comes from skipped, which was skipped")
    asks = launch(job("asks", **needs))  # an input that may be left out, but was asked for
    assert (asks["status"], asks["error"]) == ("skipped", "its input before comes from skipped, which was skipped")
    with pytest.raises(InputError, match="count measured no 'totl'"):
        launch(job("typo", when="count.totl > 1", steps=6))


def test_seconds_are_those_of_the_work_before_and_after_an_interruption(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=10.0)  # ten seconds from one look at it to the next
    monkeypatch.setattr("components.runtime.job.stage.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(StageFailed):
        launch(job(fail_at=3))
    # 20 s up to the checkpoint of step 2; then the checkpoints of steps 3 and 4, and the end
    assert launch(job(fail_at=3))["seconds"] == 50.0


def test_a_fallback_takes_the_first_that_ran(job: MakeJob, store: Store) -> None:
    launch(job())
    launch(job("skipped", when="count.total > 10", steps=3))

    def asks(name: str, *stages: str, port: str = "model", **more: Any) -> dict[str, Any]:
        refs = [StageRef(stage=stage, port=port) for stage in stages]
        component = more.pop("component", "count-for-test")
        fallback = {"before": [FirstOf(first_of=refs, **more)]}
        return launch(job(name, component=component, inputs=fallback, steps=5))

    plain = launch(job("plain", inputs={"before": [StageRef(stage="count", port="model")]}, steps=5))
    taken = asks("taken", "skipped", "count")
    assert taken["inputs"]["before"] == plain["inputs"]["before"], "lineage names the one taken"
    assert plain["inputs"]["before"][0]["source"] == "count.model"
    assert (taken["fingerprint"], taken["cache"]) == (plain["fingerprint"], "hit"), (
        "the same work, however it was named"
    )
    assert asks("first", "count", "taken")["fingerprint"] == plain["fingerprint"]

    alone = launch(job("alone", steps=5))
    assert asks("without", "skipped", or_none=True)["fingerprint"] == alone["fingerprint"] != plain["fingerprint"]
    neither = asks("neither", "skipped")
    assert (neither["status"], neither["error"]) == (
        "skipped",
        "its input before comes from skipped, which was skipped",
    )
    needy = asks("needy", "skipped", or_none=True, component="needy-for-test")
    assert needy["status"] == "skipped"


def test_what_ran_and_did_not_make_what_was_asked_for_stops_with_one_line(job: MakeJob, store: Store) -> None:
    launch(job())
    with pytest.raises(
        InputError, match=r"'asks': count ran and made no other for the input before; .*\[count.other, none\]"
    ):
        launch(job("asks", inputs={"before": [StageRef(stage="count", port="other")]}, steps=5))
    failure = store.get(failure_key("run-1", "asks"))
    assert failure is not None and failure["error"].endswith("says what to take then")
    other = [StageRef(stage="count", port="other"), StageRef(stage="count", port="model")]
    taken = launch(job("takes", inputs={"before": [FirstOf(first_of=other)]}, steps=5))
    assert taken["inputs"]["before"][0]["source"] == "count.model"


def test_a_gate_names_the_value_that_broke_it_and_commits_nothing(job: MakeJob, store: Store) -> None:
    for _ in range(2):
        with pytest.raises(GateFailed, match=r"gate 'total > 10' does not hold: total = 10"):
            launch(job(gate=["total > 10"]))
        failure = store.get(failure_key("run-1", "count"))
        assert failure is not None and failure["metrics"] == {"total": 10.0}
    assert list(store.digests()) == []
    assert launch(job(gate=["total >= 10"]))["gates"]["total >= 10"]["success"]


def test_a_gate_compares_with_an_earlier_stage(job: MakeJob, store: Store, tmp_path: Path) -> None:
    launch(job(steps=5))  # total 15
    gate = {"gate": ["total >= count.total - 5"]}
    assert launch(job("later", steps=4, **gate))["status"] == "done"  # total 10
    with pytest.raises(GateFailed, match=r"does not hold: total = 6, count\.total = 15"):
        launch(job("worse", steps=3, **gate))
    launch(job("unbound", steps=3))
    done = len(journal(tmp_path))
    with pytest.raises(GateFailed, match=r"total = 6, count\.total = 15"):  # what the cache gives passes it, too
        launch(job("cached", steps=3, **gate))
    assert len(journal(tmp_path)) == done
    with pytest.raises(InputError, match=r"count measured no 'tota' \(it has: total\)"):
        launch(job("typo", gate=["total >= count.tota"]))
    with pytest.raises(StageFailed, match="needs 'nobody', which has not ended"):
        launch(job("early", gate=["total >= nobody.total"]))


def test_a_gate_on_a_skipped_stage_fails_before_the_work(job: MakeJob, store: Store, tmp_path: Path) -> None:
    launch(job("first"))
    assert launch(job("other", steps=6, when="first.total > 99"))["status"] == "skipped"
    done = len(journal(tmp_path))
    with pytest.raises(
        InputError, match=r"stage 'count': gate 'total >= other.total' looks at other, which was skipped"
    ):
        launch(job(steps=7, gate=["total >= other.total"]))
    assert len(journal(tmp_path)) == done
    assert store.get(failure_key("run-1", "count")) is not None


def test_a_cached_result_must_pass_the_gates_of_the_run_that_reuses_it(job: MakeJob, store: Store) -> None:
    launch(job())
    with pytest.raises(GateFailed, match="gate 'total > 10' does not hold"):
        launch(job(run_id="run-2", gate=["total > 10"]))
    assert store.get(failure_key("run-2", "count")) is not None
    assert launch(job(run_id="run-3", gate=["total > 9"]))["cache"] == "hit"


def test_wrong_parameters_are_named(job: MakeJob) -> None:
    with pytest.raises(InputError, match=r"stage 'count' \(count-for-test\): steps: .*greater than or equal to 1"):
        launch(job(steps=0))


def test_a_user_model_is_copied_into_the_store_and_stays_where_it_is(job: MakeJob, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "sum.json").write_text("100")
    entry = launch(job(inputs={"before": [{"uri": str(given)}]}))
    assert entry["metrics"] == {"total": 110.0}
    assert entry["inputs"]["before"][0]["source"] == str(given)
    (given / "sum.json").write_text("200")
    assert launch(job("later", inputs={"before": [{"uri": str(given)}]}))["metrics"] == {"total": 210.0}
    with pytest.raises(InputError, match="no such file or folder"):
        launch(job("gone", inputs={"before": [{"uri": str(tmp_path / "nowhere")}]}))
