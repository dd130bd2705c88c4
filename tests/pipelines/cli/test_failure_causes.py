"""What a failure's record says of its cause, and what people are told to do next, whichever engine ordered the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import GateFailed, InputError, StageFailed, StoreUnavailable
from components.contract.job import Job
from components.runtime.job.closing import Closing
from components.runtime.job.progress import Progress
from components.runtime.ledger.records import Cause, failure_key
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store, open_store
from pipelines.runs.runs import RunResult
from pipelines.runs.summary import next_steps

MEND = "fix the recipe, its data or the code, then run the same command: finished stages are reused"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def fail(store: Store, *errors: Exception, stage: str = "train", marks: str = "a", died: bool = False) -> Cause:
    """Record attempts that fail, the last mark for all that follow; return the cause that the last record says."""
    fields = {"component": "toy", "inputs": {}, "recipe": "test", "seed": 0, "store": store.uri, "params": {}}
    job = Job.model_validate({**fields, "run_id": "run-1", "stage": stage})
    for index, error in enumerate(errors):
        closing = Closing(job, store, Spool(store, "run-1"), Progress(stage, lambda event: None))
        closing.failed(error, marks[min(index, len(marks) - 1)], died=died)
    record = store.get(failure_key("run-1", stage))
    assert record is not None
    return Cause(record["cause"])


def told(store: Store, *stages: str) -> list[str]:
    """Return the next steps after a failed run, of which no engine's process said more than the stages' errors."""
    return next_steps(store, RunResult("run-1", "failed", 1, dict.fromkeys(stages, "?"), None, None))


def test_the_same_error_from_the_same_inputs_is_no_chance(store: Store) -> None:
    assert fail(store, RuntimeError("x")) is Cause.RAISED
    assert told(store, "train") == ["run the same command to try again; finished work is kept"]
    assert fail(store, RuntimeError("x")) is Cause.REPEATED
    assert told(store, "train") == [f"train failed as before, from the same inputs: {MEND}"]
    assert fail(store, RuntimeError("y")) is Cause.RAISED, "another error"
    assert fail(store, RuntimeError("y"), RuntimeError("y"), marks="ab") is Cause.RAISED, "other inputs"
    assert fail(store, FileNotFoundError("z"), FileNotFoundError("z"), stage="other") is Cause.REPEATED
    assert told(store, "train", "other") == [f"other failed as before, from the same inputs: {MEND}"]


@pytest.mark.parametrize("error", [InputError("x"), GateFailed("x")])
def test_a_refusal_is_told_as_one(store: Store, error: Exception) -> None:
    assert fail(store, error) is Cause.REFUSED
    assert told(store, "train") == ["fix the recipe or its data, then run the same command: finished stages are reused"]


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left"), StoreUnavailable("x"), TimeoutError()])
def test_what_came_from_outside_may_be_gone(store: Store, error: Exception) -> None:
    assert fail(store, error, error) is Cause.OUTSIDE
    assert told(store, "train") == ["run the same command to continue; finished work is kept"]


def test_a_process_that_was_killed_goes_on(store: Store) -> None:
    assert fail(store, StageFailed("killed"), StageFailed("killed"), died=True) is Cause.OUTSIDE
    assert told(store, "train") == ["run the same command to continue; finished work is kept"]


def test_failures_of_older_stores_say_no_cause(store: Store) -> None:
    record = {"run_id": "run-1", "stage": "train", "fingerprint": "a", "error": "RuntimeError: x", "time": 0.0}
    store.put(failure_key("run-1", "train"), record)
    assert told(store, "train") == ["run the same command to continue; finished work is kept"]
    assert fail(store, RuntimeError("x")) is Cause.REPEATED
