"""The order of runs is that in which they began on the store, on a directory and on S3, whatever the clocks say."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from components.runtime.ledger.ledger import Ledger
from components.runtime.ledger.run_list import list_runs, newest_runs
from components.runtime.ledger.sequence import run_numbers
from components.runtime.store import Store, open_store
from components.runtime.upkeep.inventory import take_inventory
from components.runtime.upkeep.selection import Rules, select_runs
from pipelines.plan.history import History
from pipelines.runs.find import find_run
from pipelines.runs.runs import RunWriter
from tests.runtime.lineage.conftest import Story

SIDE_BY_SIDE = 4
YEAR = 365 * 86_400.0


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    return open_store(str(tmp_path / "store") if request.param == "directory" else request.getfixturevalue("s3_uri"))


def begin(store: Store, run_id: str, *, ago: float = 0.0, recipe: str = "quick") -> None:
    """Begin a run on a machine whose clock is `ago` seconds behind."""
    entry = {"recipe": recipe, "summary": "", "recipe_text": "", "recipe_digest": "cd" * 32, "params": {}, "seed": 7}
    entry |= {"plan_digest": run_id, "engine": "local", "stages": []}
    RunWriter(store, run_id, started=time.time() - ago).begin(entry)


def test_latest_is_what_began_last_though_the_clock_went_back(place: Store) -> None:
    begin(place, "quick-20260301-120000-aaaa")
    begin(place, "other-20260301-110000-bbbb", recipe="other", ago=3600)
    begin(place, "quick-20200101-000000-cccc", ago=6 * YEAR)
    expected = ["quick-20200101-000000-cccc", "other-20260301-110000-bbbb", "quick-20260301-120000-aaaa"]
    assert Ledger(place).newest == expected
    assert [run["run_id"] for run in list_runs(place)] == expected
    assert [run["run_id"] for run in newest_runs(place, 2)[0]] == expected[:2]
    assert find_run(place, "latest") == expected[0]
    assert find_run(place, "quick") == expected[0]
    assert find_run(place, "other") == expected[1]


def test_a_run_that_goes_on_keeps_its_place(place: Store) -> None:
    for run_id in ("a", "b", "a"):
        begin(place, run_id)
    assert run_numbers(place) == {"a": 1, "b": 2}
    assert find_run(place, "latest") == "b"


def test_a_kill_before_the_first_record_costs_a_number_and_nothing_else(place: Store) -> None:
    begin(place, "a")
    place.put("sequence/0000000002-killed.json", {"run_id": "killed", "number": 2})
    begin(place, "b")
    assert Ledger(place).newest == ["b", "a"]
    begin(place, "killed")
    assert Ledger(place).newest == ["b", "killed", "a"]


def test_runs_of_earlier_versions_come_before_in_the_order_of_their_clocks(place: Store) -> None:
    """They have no number; those that go on with this version keep their place."""
    for run_id, clock in (("old-2", 2e9), ("old-1", 1e9)):
        story = Story(place, run_id)
        story.clock = clock
        story.begin("base")
    Story(place, "dated-20990101-000000-ffff").begin("base")
    begin(place, "new", ago=40 * YEAR)
    begin(place, "old-1")
    assert Ledger(place).newest == ["new", "dated-20990101-000000-ffff", "old-2", "old-1"]


def _begin(uri: str, run_id: str) -> None:
    begin(open_store(uri), run_id)


def test_runs_that_begin_at_once_all_count_and_the_next_comes_after_them(place: Store) -> None:
    names = [f"run-{index}" for index in range(SIDE_BY_SIDE)]
    with ProcessPoolExecutor(SIDE_BY_SIDE, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(_begin, [place.uri] * SIDE_BY_SIDE, names))
    begin(place, "after", ago=YEAR)
    newest = Ledger(place).newest
    assert newest[0] == "after" and sorted(newest[1:]) == names
    assert Ledger(place).newest == newest


def test_why_a_stage_runs_again_is_told_by_the_newest_run(place: Store) -> None:
    for run_id, mark in (("quick-20260301-000000-aaaa", "old"), ("quick-20200101-000000-bbbb", "new")):
        begin(place, run_id)
        story = Story(place, run_id)
        story.stage("base", {"model": ("Model", run_id)}, params={"steps": mark})
    action = History(place, "quick").last_action("base")
    assert action is not None and action["run_id"] == "quick-20200101-000000-bbbb"


def test_the_last_runs_that_a_collector_keeps_are_those_that_began_last(place: Store) -> None:
    begin(place, "quick-20260301-120000-aaaa")
    begin(place, "quick-20200101-000000-bbbb", ago=6 * YEAR)
    rules = Rules(keep_last=1, undelivered=True, grace_seconds=-60.0)
    assert select_runs(place, take_inventory(place), rules).gone == ["quick-20260301-120000-aaaa"]
