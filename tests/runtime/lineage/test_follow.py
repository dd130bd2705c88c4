"""The deliverer of a store: it follows every registered run, and ends with the last of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.runtime.lineage.delivery import follow
from components.runtime.lineage.delivery.deliver import delivery_state
from components.runtime.lineage.delivery.follow import follow_runs
from components.runtime.lineage.delivery.followed import Followed
from components.runtime.lineage.spool import spooled_keys
from components.runtime.store import Store
from tests.runtime.lineage.conftest import FORK, Story, tell, uri_of

FAR = "http://127.0.0.1:9"


def ended_process() -> int:
    process = FORK.Process(target=lambda: None)
    process.start()
    process.join()
    assert process.pid is not None
    return process.pid


def pending(store: Store, run_id: str, uri: str) -> int:
    return delivery_state(store, run_id, uri).pending


def test_it_ends_with_the_last_of_its_runs(store: Store, database: Path) -> None:
    uri = uri_of(database)
    followed = Followed(store, uri)
    followed.add("quick-1", os.getpid())
    follower = FORK.Process(target=follow_runs, args=(store, uri))
    follower.start()
    tell(store, "quick-1")
    followed.add("quick-2", os.getpid())
    tell(store, "quick-2")
    follower.join(timeout=60)
    assert follower.exitcode == 0
    assert pending(store, "quick-1", uri) == pending(store, "quick-2", uri) == 0
    assert followed.runs() == set() and not followed.has_deliverer()


def test_it_ends_with_the_engine(store: Store, database: Path) -> None:
    uri = uri_of(database)
    Followed(store, uri).add("quick-1", ended_process())
    Story(store, "quick-1").begin("base")
    follow_runs(store, uri)
    assert pending(store, "quick-1", uri) == 0 and Followed(store, uri).runs() == set()


def test_it_outlives_neither_its_run_nor_its_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL_SECONDS", (0.0, 0.0))
    tell(store, "quick-1")
    Followed(store, FAR).add("quick-1", os.getpid())
    follow_runs(store, FAR)
    state = delivery_state(store, "quick-1", FAR)
    assert state.pending == len(spooled_keys(store, "quick-1"))
    assert state.problem and "127.0.0.1:9" in state.problem


def test_there_is_one_and_a_killed_one_is_replaced(store: Store, database: Path) -> None:
    uri = uri_of(database)
    followed = Followed(store, uri)
    followed.add("quick-1", os.getpid())
    command = [sys.executable, "-m", "components.runtime.lineage.delivery.deliver", "--store", store.uri]
    first = subprocess.Popen(command, env={**os.environ, "MLFLOW_TRACKING_URI": uri})
    deadline = time.monotonic() + 60
    while not followed.has_deliverer() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert followed.has_deliverer()
    follow_runs(store, uri)  # returns at once: there is one
    assert followed.runs() == {("quick-1", os.getpid())}
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not followed.has_deliverer()
    tell(store, "quick-1")
    follow_runs(store, uri)
    assert pending(store, "quick-1", uri) == 0


def test_one_server_is_not_the_other_and_names_are_only_names(store: Store, database: Path) -> None:
    followed = Followed(store, uri_of(database))
    followed.add("quick-1", 7)
    followed.add("quick-1", 7)
    assert Followed(store, FAR).runs() == set()
    folder = next(path for path in (Path(store.uri) / "locks").iterdir() if path.is_dir())
    (folder / "no-number@x").touch()
    (folder / "nothing").touch()
    assert followed.runs() == {("quick-1", 7)}
    followed.remove("quick-1", 7)
    assert followed.runs() == set()


def test_a_run_that_cannot_be_delivered_holds_no_other_up(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL_SECONDS", (0.0, 0.0))
    uri = uri_of(database)
    for run_id in ("quick-1", "quick-2", "quick-3"):
        tell(store, run_id)
        Followed(store, uri).add(run_id, ended_process())
    (Path(store.uri) / "delivered").mkdir()
    (Path(store.uri) / "delivered" / "quick-1").write_text("in the place of the cursor's folder")
    with store.lock("lineage-quick-3", wait_seconds=0):
        follow_runs(store, uri)
    assert [pending(store, run_id, uri) > 0 for run_id in ("quick-1", "quick-2", "quick-3")] == [True, False, True]
    assert Followed(store, uri).runs() == set()
