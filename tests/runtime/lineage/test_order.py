"""Order of delivery: causes first, whatever a listing missed and whatever the clocks say."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.runtime.lineage.delivery.order import delivery_order, is_closed
from components.runtime.lineage.events import parse_event
from components.runtime.lineage.spool import run_started_key, spooled_keys
from components.runtime.store import Store
from tests.runtime.lineage.conftest import Story, tell

STAGES = ("base", "prompts", "sft", "rl", "evaluate")


def order(store: Store, keys: list[str]) -> list[str]:
    events = {key: parse_event(store.get(key)) for key in keys}
    return delivery_order(events, keys, STAGES, closed=is_closed(keys))


def test_a_whole_run_goes_by_dependencies(store: Store) -> None:
    tell(store, "r")
    keys = spooled_keys(store, "r")
    random.Random(0).shuffle(keys)
    found = order(store, keys)
    assert sorted(found) == sorted(keys)
    names = [key.split("/", 2)[2].split("/") for key in found]
    assert names[0] == ["run-started.json"]
    stages = list(dict.fromkeys(name[1] for name in names if name[0] == "stages"))
    assert stages.index("base") < stages.index("sft") < stages.index("rl") < stages.index("evaluate")
    assert [name[0] for name in names[-3:]] == ["models", "reports", "turns"]
    within = [name[-1].split("-")[0] for name in names if name[:2] == ["stages", "sft"]]
    assert within == ["started.json", "rows", "rows", "finished.json"]


def test_a_stage_waits_for_the_end_of_what_it_reads(store: Store) -> None:
    tell(store, "r")
    seen = [key for key in spooled_keys(store, "r") if "/turns/" not in key]
    missed = next(key for key in seen if "/stages/sft/" in key and key.endswith("finished.json"))
    seen.remove(missed)
    stages = {key.split("/")[3] for key in order(store, seen) if "/stages/" in key}
    assert stages == {"base", "prompts", "sft"}  # rl reads sft, and evaluate reads rl
    assert not any("/stages/rl/" in key for key in order(store, seen))


@given(missed=st.sets(st.integers(0, 30)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_waits_once_the_run_has_ended(store: Store, missed: set[int]) -> None:
    if not store.get(run_started_key("r")):
        tell(store, "r")
    keys = spooled_keys(store, "r")
    kept = [key for index, key in enumerate(keys) if index not in missed or "/turns/" in key]
    assert sorted(order(store, kept)) == kept


def test_a_resumed_run_is_open_again(store: Store) -> None:
    story = Story(store, "r")
    story.begin()
    assert not is_closed(spooled_keys(store, "r"))
    story.end("stopped")
    assert is_closed(spooled_keys(store, "r"))
    story.spool.run_resumed(at=story.clock + 1)
    assert not is_closed(spooled_keys(store, "r"))
    story.clock += 2
    story.end()
    assert is_closed(spooled_keys(store, "r"))
