"""Alarms of a job: what a stage that goes wrong leaves, stopped or not, killed or reused."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import GateFailed, StageFailed, StoppedByAlarm
from components.contract.job import Job
from components.contract.registry import components
from components.runtime.job.launch import Launch
from components.runtime.job.process import REFUSED, execute
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.records import Cause, alarms_key, failure_key, stage_key
from components.runtime.ledger.shown import show_json
from components.runtime.store import Store, open_store
from components.runtime.upkeep.inventory import take_inventory
from components.runtime.upkeep.reach import reached

EXPLODES = [1.0, 1.0, 9.0, 9.0, 9.0, 9.0]
RECOVERS = [1.0, 9.0, 9.0, 1.0, 1.0, 1.0]
ROOT = Path(__file__).parents[3]
MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def registered() -> None:
    components().add("log-for-test", "tests.support.logging_stage:COMPONENT", origin="test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def job(tmp_path: Path, store: Store) -> MakeJob:
    def make(
        losses: list[float | None], run_id: str = "run-1", params: dict[str, Any] | None = None, **more: Any
    ) -> Job:
        given = {"losses": losses, "journal": str(tmp_path / "journal"), **(params or {})}
        plain = {"component": "log-for-test", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri}
        return Job.model_validate({**plain, "run_id": run_id, "stage": "log", "params": given, **more})

    return make


def launch(job: Job) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the ledger entry, and the alarms in the order in which they were told."""
    told: list[dict[str, Any]] = []
    return Launch(job, told.append).run(), alarms_of(told)


def alarms_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["alarm"] for event in events if event["event"] == "alarm"]


def recorded(store: Store, run_id: str = "run-1") -> list[tuple[str, int, int | None]]:
    record = store.get(alarms_key(run_id, "log")) or {"alarms": []}
    return [(alarm["name"], alarm["since"], alarm["cleared"]) for alarm in record["alarms"]]


def spooled(store: Store, run_id: str = "run-1") -> list[list[str]]:
    keys = [key for key in store.keys(f"spool/{run_id}/stages/log/") if "/alarms-" in key]
    return [[alarm["name"] for alarm in (store.get(key) or {})["alarms"]] for key in sorted(keys)]


def test_an_alarm_is_told_recorded_and_names_the_parameter_as_the_recipe_does(job: MakeJob, store: Store) -> None:
    entry, told = launch(job(EXPLODES, written={"learning_rate": "sft_lr"}))
    assert entry["status"] == "done"
    assert [(a["name"], a["since"], a["raised"], a["text"], a["helps"]) for a in told] == [
        ("exploded", 3, 4, "9 after 1", "lower sft_lr (0.5)")
    ]
    assert (recorded(store), spooled(store)) == ([("exploded", 3, None)], [["exploded"]])
    shown = show_json(load_run(store, "run-1"))["stages"][0]
    assert [alarm["name"] for alarm in shown["alarms"]] == ["exploded"]


def test_one_that_recovers_is_over_and_one_that_is_not_finite_is_named(job: MakeJob, store: Store) -> None:
    launch(job([*RECOVERS, None, 1.0]))
    assert recorded(store) == [("exploded", 2, 5), ("not_finite", 7, 8)]
    assert len(spooled(store)) == 4


def test_the_reaction_and_the_bounds_change_neither_bytes_nor_fingerprint(job: MakeJob, store: Store) -> None:
    first, _ = launch(job([1.0, 2.0]))
    again, _ = launch(job([1.0, 2.0], "run-2", on_alarm="stop", alarms={"exploded": 7.0}, written={"a": "b"}))
    assert (again["cache"], again["fingerprint"]) == ("hit", first["fingerprint"])
    plain = job([1.0]).model_dump(mode="json")
    assert not {"on_alarm", "alarms", "written"} & plain.keys()  # jobs of recipes without them keep their form


def test_stop_ends_the_stage_keeps_the_history_and_is_not_tried_again(job: MakeJob, store: Store) -> None:
    asked, events = job(EXPLODES, on_alarm="stop"), []
    assert execute(asked, events.append) == REFUSED
    assert [alarm["name"] for alarm in alarms_of(events)] == ["exploded"]
    failure = store.get(failure_key("run-1", "log")) or {}
    assert failure["cause"] == Cause.REFUSED
    assert failure["error"] == "stage 'log': stopped by alarm exploded since step 3: 9 after 1"
    assert store.get(stage_key("run-1", "log")) is None
    kept = load_run(store, "run-1").kept["log"]
    lines = (store.fetch(kept["metrics"]["digest"]) / "history.jsonl").read_text().splitlines()
    assert len(lines) == 4  # as far as it came; the model is not among what is kept
    assert set(kept) == {"metrics"}
    inventory = take_inventory(store)
    assert kept["metrics"]["digest"] in reached(store, inventory, (), ()).digests
    assert kept["metrics"]["digest"] not in reached(store, inventory, ["run-1"], ()).digests
    # it is no success that another run could reuse; with `warn` the work goes on from its checkpoint
    with pytest.raises(StoppedByAlarm):
        launch(job(EXPLODES, "run-2", on_alarm="stop"))
    entry, told = launch(job(EXPLODES, "run-3"))
    assert (entry["cache"], [alarm["name"] for alarm in told]) == ("miss", ["exploded"])


def test_a_killed_stage_goes_on_with_the_same_alarms_once(job: MakeJob, store: Store) -> None:
    broken = job(EXPLODES, params={"fail_at": 6})
    with pytest.raises(StageFailed):
        launch(broken)
    assert recorded(store) == [("exploded", 3, None)]
    entry, told = launch(broken)  # resumes at step 4, after the alarm
    assert [alarm["name"] for alarm in told] == ["exploded"]  # for whoever watches now
    assert (recorded(store), spooled(store)) == ([("exploded", 3, None)], [["exploded"]])
    assert entry["status"] == "done"


def test_the_reason_that_a_stage_gives_ends_the_text_also_after_a_kill(job: MakeJob, store: Store) -> None:
    broken = job(EXPLODES, params={"fail_at": 6, "reason": "\x1b[2J as\nin step"})
    with pytest.raises(StageFailed):
        launch(broken)
    wanted = r"9 after 1; the first: \x1b[2J as\nin step 1"  # what a model wrote may be part of it
    assert [alarm["text"] for alarm in store.get(alarms_key("run-1", "log"))["alarms"]] == [wanted]  # type: ignore[index]
    _, told = launch(broken)
    assert [alarm["text"] for alarm in told] == [wanted]


def test_a_value_that_was_lost_before_a_kill_is_not_forgotten(job: MakeJob, store: Store) -> None:
    broken = job([1.0, None, 1.0, 1.0], params={"fail_at": 4})
    with pytest.raises(StageFailed):
        launch(broken)
    launch(broken)
    assert (recorded(store), len(spooled(store))) == ([("not_finite", 2, 3)], 2)


def test_a_cached_stage_raises_its_alarms_again(job: MakeJob, store: Store) -> None:
    launch(job(EXPLODES))
    entry, told = launch(job(EXPLODES, "run-2", written={"learning_rate": "other"}))
    assert entry["cache"] == "hit"
    assert [(alarm["name"], alarm["helps"]) for alarm in told] == [("exploded", "lower other (0.5)")]
    assert (recorded(store, "run-2"), spooled(store, "run-2")) == ([("exploded", 3, None)], [["exploded"]])
    with pytest.raises(GateFailed, match="in its earlier result"):
        launch(job(EXPLODES, "run-3", on_alarm="stop"))
    assert store.get(stage_key("run-3", "log")) is None


def test_a_cached_stage_is_judged_by_the_bounds_of_the_run_that_reuses_it(job: MakeJob, store: Store) -> None:
    launch(job([*EXPLODES, None]))
    entry, told = launch(
        job([*EXPLODES, None], "run-2", on_alarm="stop", alarms={"exploded": 100.0, "not_finite": None})
    )
    assert (entry["cache"], told) == ("hit", [])
    _, told = launch(job([*EXPLODES, None], "run-3", alarms={"exploded": 3.0}))
    assert sorted(alarm["name"] for alarm in told) == ["exploded", "not_finite"]


def test_a_stage_that_is_done_shows_its_alarms_to_a_new_view(job: MakeJob) -> None:
    launch(job(EXPLODES))
    _, told = launch(job(EXPLODES))
    assert [alarm["name"] for alarm in told] == ["exploded"]


@pytest.mark.parametrize(("reaction", "error"), [("warn", StageFailed), ("stop", StoppedByAlarm)])
def test_a_gradient_that_is_not_finite_is_an_alarm(
    job: MakeJob, store: Store, reaction: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        launch(job([1.0, 1.0, 1.0], params={"gradient_fails_at": 3}, on_alarm=reaction))
    assert recorded(store) == [("not_finite", 3, None)]
    assert "metrics" in load_run(store, "run-1").kept["log"]


def test_alarms_of_an_attempt_that_came_to_nothing_do_not_stay(job: MakeJob, store: Store) -> None:
    with pytest.raises(StoppedByAlarm):
        launch(job(EXPLODES, on_alarm="stop"))
    launch(job([1.0, 1.0]))  # the same run with its recipe mended
    assert recorded(store) == []


LATE = [1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0]


def test_rollback_ends_the_stage_at_the_checkpoint_before_the_alarm(job: MakeJob, store: Store) -> None:
    asked = job(LATE, on_alarm="rollback", keep_partial=2)
    entry, told = launch(asked)
    assert entry["status"] == "done"
    assert (store.fetch(entry["outputs"]["model"]["digest"]) / "losses.txt").read_text() == str(LATE[:4])
    history = (store.fetch(entry["outputs"]["metrics"]["digest"]) / "history.jsonl").read_text().splitlines()
    assert len(history) == 4
    assert told[-1]["text"] == "9 after 1; returned to step 4"
    assert (recorded(store), spooled(store)[-1]) == ([("exploded", 6, None)], ["exploded"])
    again, told = launch(asked.model_copy(update={"run_id": "run-2"}))
    assert (again["cache"], again["outputs"]["model"]) == ("hit", entry["outputs"]["model"])
    assert [alarm["text"] for alarm in told] == ["9 after 1; returned to step 4"]


def test_what_may_be_rolled_back_is_other_work_by_its_bounds_and_its_kept_steps(job: MakeJob) -> None:
    fingerprints = {
        launch(job([1.0, 2.0], f"run-{number}", **more))[0]["fingerprint"]
        for number, more in enumerate(
            [
                {},
                {"keep_partial": 2},
                {"on_alarm": "rollback", "keep_partial": 2},
                {"on_alarm": "rollback", "keep_partial": 1},
                {"on_alarm": "rollback", "keep_partial": 2, "alarms": {"exploded": 7.0}},
            ]
        )
    }
    assert len(fingerprints) == 4


def test_an_alarm_before_the_first_kept_checkpoint_fails_the_stage_in_one_line(job: MakeJob, store: Store) -> None:
    asked, events = job(EXPLODES, on_alarm="rollback", keep_partial=4), []
    assert execute(asked, events.append) == REFUSED
    failure = (store.get(failure_key("run-1", "log")) or {})["error"]
    assert failure.startswith(
        "stage 'log': alarm exploded holds since step 3, and no checkpoint from before it was kept"
    )


@pytest.mark.parametrize("moment", ["undecided", "decided", "returned"])
def test_a_stage_that_is_killed_while_it_returns_ends_at_the_same_step(
    job: MakeJob, store: Store, moment: str, tmp_path: Path
) -> None:
    asked = job(LATE, on_alarm="rollback", keep_partial=2)
    calls = dict.fromkeys(("undecided", "decided"), "return_to_before") | {"returned": "RunningStage.finish_log"}
    script = f"""
import os, signal, sys
from components.contract.job import Job
from components.contract.registry import components
from components.runtime.job import launch
components().add("log-for-test", "tests.support.logging_stage:COMPONENT", origin="test")
def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)
owner, _, name = {calls[moment]!r}.rpartition(".")
first = []
where = getattr(launch, owner) if owner else launch
real = getattr(where, name)
def dies(*a, **k):
    first.append(1)
    if {moment!r} == "undecided" or len(first) == 2: die()
    made = real(*a, **k)
    if {moment!r} == "decided": die()
    return made
setattr(where, name, dies)
launch.Launch(Job.model_validate_json(sys.stdin.read()), lambda event: None).run()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], input=asked.model_dump_json(), text=True, cwd=ROOT, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    entry, told = launch(asked)
    assert (store.fetch(entry["outputs"]["model"]["digest"]) / "losses.txt").read_text() == str(LATE[:4])
    again = ["9 after 1"] if moment == "undecided" else []
    assert [alarm["text"] for alarm in told] == [*again, "9 after 1; returned to step 4"]
