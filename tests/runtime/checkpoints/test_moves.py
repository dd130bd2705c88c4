"""A run that moves: its stage ends at a step's border, and its state is verified where it goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, Moved, StoreUnavailable
from components.contract.job import Job
from components.runtime.checkpoints.moves import (
    Border,
    State,
    ask,
    asked,
    check_work,
    fingerprints_begun,
    hand_over,
    note_arrival,
    state_for,
    take_back,
    withdraw,
)
from components.runtime.job.giving_up import give_up
from components.runtime.job.process import REFUSED
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.ledger.records import failure_key, load_job, stage_key
from components.runtime.store import Store, StoreLocked, open_store
from tests.runtime.checkpoints.test_fork_kills import prepare, run, start

LIMIT_SECONDS = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def until(holds: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    since = time.monotonic()
    while not holds():
        assert process.poll() is None and time.monotonic() < since + LIMIT_SECONDS
        time.sleep(0.01)


def begin(store: Store, run_id: str, **fields: object) -> subprocess.Popen[str]:
    """Start the count, and wait until it has made checkpoints."""
    prepare(store, run_id, **fields)
    process = start(store, run_id)
    until(lambda: any(store.partials(mark).exist() for mark in fingerprints_begun(store, run_id).values()), process)
    return process


def left(store: Store, run_id: str, scratch: Path) -> State:
    """Return the one state that a run has handed over."""
    (state,) = hand_over(store, run_id, scratch, pytest.fail, wait_seconds=LIMIT_SECONDS)
    return state


def test_a_stage_ends_at_a_border_and_goes_on_in_the_same_bytes(store: Store, tmp_path: Path) -> None:
    straight = run(open_store(str(tmp_path / "other")), "straight")
    process = begin(store, "first")
    ask(store, "first", "airflow")
    told, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == REFUSED
    assert "stage 'count' ended at step" in told and "the run continues on engine airflow" in told
    assert store.get(failure_key("first", "count")) is None, "it has not failed"
    state = left(store, "first", tmp_path / "scratch")
    assert f"ended at step {state.step}:" in told, "its newest checkpoint is of the step at which it ended"
    ended = run(store, "second", moved="first")
    assert ended["outputs"]["model"]["digest"] == straight["outputs"]["model"]["digest"]
    assert ended["metrics"] == straight["metrics"]


def test_it_is_told_that_the_state_is_the_one_that_was_handed_over(store: Store, tmp_path: Path) -> None:
    process = begin(store, "first")
    ask(store, "first", "local")
    process.communicate(timeout=LIMIT_SECONDS)
    state = left(store, "first", tmp_path / "scratch")
    prepare(store, "second", moved="first")
    told, _ = start(store, "second").communicate(timeout=LIMIT_SECONDS)
    started = next(line for line in told.splitlines() if '"started"' in line)
    assert f'"resumed_from": {state.step}' in started and state.digest in started and '"run": "first"' in started


@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_kills_before_and_after_a_move_change_no_byte(store: Store, tmp_path: Path, kills: int) -> None:
    straight = run(open_store(str(tmp_path / "other")), "straight")
    chance, last = random.Random(kills), "run-0"
    process = begin(store, last)
    for number in range(1, kills + 1):
        if number % 2:  # killed, and moved as it lies there; else it ends by itself
            time.sleep(chance.uniform(0, 0.2))
            os.killpg(process.pid, signal.SIGKILL)
        ask(store, last, "local")
        process.communicate(timeout=LIMIT_SECONDS)
        if store.get(stage_key(last, "count")):  # it was done before it could look
            break
        left(store, last, tmp_path / f"scratch-{number}")
        previous, last = last, f"run-{number}"
        process = begin(store, last, moved=previous)
    process.communicate(timeout=LIMIT_SECONDS)
    entry = store.get(stage_key(last, "count"))
    assert entry is not None and entry["outputs"]["model"]["digest"] == straight["outputs"]["model"]["digest"]


def test_a_run_that_moves_begins_no_further_stage(store: Store) -> None:
    prepare(store, "first")
    ask(store, "first", "kubeflow")
    note_arrival(store, "first", "second")
    process = start(store, "first")
    told, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == REFUSED
    assert "stage 'count' does not begin here: the run continues on engine kubeflow, as run second" in told
    withdraw(store, "first")
    assert run(store, "first")["status"] == "done"


def test_a_damaged_state_is_replaced_by_the_one_before(store: Store, tmp_path: Path) -> None:
    straight = run(open_store(str(tmp_path / "other")), "straight")
    process = begin(store, "first")
    ask(store, "first", "local")
    process.communicate(timeout=LIMIT_SECONDS)
    state = left(store, "first", tmp_path / "scratch")
    (manifest,) = (tmp_path / "store" / "partial" / state.fingerprint).glob(f"*-{state.digest}/manifest.json")
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    prepare(store, "second", moved="first")
    told, _ = start(store, "second").communicate(timeout=LIMIT_SECONDS)
    assert f"the state of step {state.step} that run first handed over is damaged or gone" in told
    entry = store.get(stage_key("second", "count"))
    assert entry is not None and entry["outputs"]["model"]["digest"] == straight["outputs"]["model"]["digest"]


def test_other_work_is_refused_and_told(store: Store, tmp_path: Path) -> None:
    process = begin(store, "first")
    ask(store, "first", "local")
    process.communicate(timeout=LIMIT_SECONDS)
    state = left(store, "first", tmp_path / "scratch")
    prepare(store, "second", moved="first", params={"steps": 500})
    process = start(store, "second")
    told, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == REFUSED
    assert f"cannot go on with the state of run first at step {state.step}: its work differs here (params)" in told


def test_an_unknown_move_is_refused(store: Store) -> None:
    prepare(store, "second", moved="gone")
    process = start(store, "second")
    told, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == REFUSED
    assert "there is no run gone to go on for" in told


def test_a_move_that_was_taken_back_since_stops_nobody(store: Store, tmp_path: Path) -> None:
    process = begin(store, "first")
    ask(store, "first", "local")
    process.communicate(timeout=LIMIT_SECONDS)
    state = left(store, "first", tmp_path / "scratch")
    withdraw(store, "first")
    prepare(store, "second", moved="first")
    told, _ = start(store, "second").communicate(timeout=LIMIT_SECONDS)
    assert f'"resumed_from": {state.step}' in told
    assert (store.get(stage_key("second", "count")) or {})["status"] == "done"


def test_a_border_is_looked_at_again_before_a_stage_leaves(store: Store) -> None:
    ask(store, "first", "local")
    border = Border(store, "first")
    border._pause = 0.0
    assert border.reached()
    withdraw(store, "first")
    border.leave("count", 3)
    ask(store, "first", "local")
    assert border.reached()
    with pytest.raises(Moved, match="stage 'count' ended at step 3"):
        border.leave("count", 3)


def test_a_store_that_is_away_does_not_end_a_stage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    border = Border(store, "first")
    border._pause = 0.0
    monkeypatch.setattr(store, "recover", away)
    assert not border.reached()


def test_a_stage_that_left_is_not_given_up_even_if_its_move_was_taken_back(store: Store) -> None:
    prepare(store, "first", on_failure="skip")
    ask(store, "first", "local")
    process = start(store, "first")
    process.communicate(timeout=LIMIT_SECONDS)
    withdraw(store, "first")
    job = load_job(store, "first", "count")
    assert job is not None and process.returncode == REFUSED
    assert not give_up(job, store, lambda event: None, "refused")
    assert store.get(stage_key("first", "count")) is None


def test_a_mover_that_was_killed_takes_nothing_away(store: Store) -> None:
    ask(store, "first", "local")
    take_back(store, "first")
    assert asked(store, "first") is None
    ask(store, "first", "local")
    note_arrival(store, "first", "second")
    take_back(store, "first")
    assert (asked(store, "first") or {})["as"] == "second", "it goes on elsewhere"


def test_a_stage_at_work_is_waited_for(store: Store, tmp_path: Path) -> None:
    process = begin(store, "first")
    ask(store, "first", "local")
    withdraw(store, "first")
    ask(store, "first", "local")
    (mark,) = fingerprints_begun(store, "first").values()
    process.communicate(timeout=LIMIT_SECONDS)
    with store.lock(f"job-{mark}", wait_seconds=1), pytest.raises(StoreLocked):
        hand_over(store, "first", tmp_path / "scratch", pytest.fail, wait_seconds=0)


def test_without_a_move_nothing_is_said(store: Store) -> None:
    prepare(store, "first")
    job = load_job(store, "first", "count")
    assert job is not None and job.moved is None and "moved" not in job.model_dump(mode="json")
    assert state_for(store, job) is None and asked(store, "first") is None
    border = Border(store, "first")
    border._pause = 0.0
    assert not border.reached()
    border.leave("count", 3)


def test_parts_of_the_work_are_compared(store: Store) -> None:
    job = Job.model_validate(
        {"run_id": "b", "recipe": "r", "stage": "s", "component": "c", "inputs": {}, "params": {}, "seed": 0}
        | {"store": store.uri, "moved": "a"}
    )
    mark = Fingerprint.of({"component": "c"})
    check_work(store, job, State("s", mark.digest, 3, "d"), mark)
    with pytest.raises(InputError, match="its work differs here; use the same code"):
        check_work(store, job, State("s", "other", 3, "d"), mark)
