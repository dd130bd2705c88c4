"""A stage without enough memory ends in what to turn, whether it can still say so or was killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from components.contract.errors import StageFailed
from components.contract.job import Job
from components.contract.registry import components
from components.runtime.ends import cause_of_end
from components.runtime.launch import Launch
from components.runtime.records import failure_key
from components.runtime.shortage import is_out_of_memory

ADVICE = "turn petabytes; crumb_size, or take a larger pool; it was estimated to need, in GiB: cake 4.2e+06, crumbs 1"


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    components().add("hungry-for-test", "tests.support.hungry_stage:COMPONENT", origin="test")
    job = Job(
        run_id="r",
        recipe="test",
        stage="eat",
        component="hungry-for-test",
        params={},
        inputs={},
        seed=0,
        store=str(tmp_path / "store"),
    )
    return Launch(job, lambda event: None)


def test_an_allocation_that_fails_says_what_to_turn(launch: Launch) -> None:
    with pytest.raises(StageFailed) as caught:
        launch.run()
    assert str(caught.value).startswith("stage 'eat': RuntimeError: ")
    assert "can't allocate memory" in str(caught.value)
    assert str(caught.value).endswith(ADVICE)


def test_so_does_a_process_that_was_killed(launch: Launch) -> None:
    launch.record_death(f"its process {cause_of_end(-signal.SIGKILL)}")
    record = launch.store.get(failure_key("r", "eat"))
    assert record is not None
    assert record["error"] == (
        "its process was killed by SIGKILL (by a person, or by the system when memory ran out); " + ADVICE
    )


def test_other_deaths_say_nothing_of_memory(launch: Launch) -> None:
    launch.record_death(f"its process {cause_of_end(-signal.SIGTERM)}")
    record = launch.store.get(failure_key("r", "eat"))
    assert record is not None
    assert record["error"] == "its process was killed by SIGTERM"


@pytest.mark.parametrize(
    ("error", "is_shortage"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_how_a_shortage_shows(error: Exception, is_shortage: bool) -> None:
    assert is_out_of_memory(error) is is_shortage
