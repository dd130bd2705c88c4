"""The spool: each event once, each row of a history in exactly one chunk."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.runtime.lineage.spool import Spool, spooled_keys
from components.runtime.store import Store
from tests.runtime.lineage.conftest import Story


@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_row_is_told_once_however_jobs_are_killed_and_cut_their_chunks(store: Store, data: st.DataObject) -> None:
    run_id = f"r{len({key.split('/')[1] for key in store.keys('spool/')})}"
    total = data.draw(st.integers(1, 12))
    rows = [{"step": step, "loss": step / 2} for step in range(total)]
    for _ in range(data.draw(st.integers(0, 3))):  # jobs that were killed after some chunks
        spool, start = Spool(store, run_id), 0
        for _ in range(data.draw(st.integers(0, 4))):
            end = data.draw(st.integers(start, total))
            spool.metrics("rl", "f", start, rows[start:end])
            start = end
    Spool(store, run_id).metrics("rl", "f", 0, rows)
    chunks = [store.get(key) for key in spooled_keys(store, run_id)]
    chunks.sort(key=lambda chunk: chunk["start"])
    assert [row for chunk in chunks for row in chunk["rows"]] == rows
    assert not Spool(store, run_id).metrics("rl", "f", 0, rows)


def test_a_gap_in_the_history_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="rows from 3 on were told, but those from 0 on never were"):
        Spool(store, "r").metrics("rl", "f", 3, [{"step": 3, "loss": 1.0}])


def test_the_first_writer_of_an_event_wins(store: Store) -> None:
    story = Story(store, "r")
    job = story.job("rl")
    mark = story.mark(job, {})
    assert story.spool.stage_started(job, mark, {})
    kept = [store.get(key) for key in spooled_keys(store, "r")]
    assert not Spool(store, "r").stage_started(job, mark, {})
    assert [store.get(key) for key in spooled_keys(store, "r")] == kept


def test_each_failure_and_each_end_is_an_event_of_its_own(store: Store) -> None:
    spool = Spool(store, "r")
    assert [spool.stage_failed("rl", None, "no memory", at=at) for at in (1.0, 2.0, 2.0)] == [True, True, False]
    assert [spool.run_finished("stopped", ended=at) for at in (3.0, 4.0, 4.0)] == [True, True, False]


def test_jobs_and_readers_never_import_mlflow() -> None:
    modules = "spool registry graph.graph graph.compare graph.references graph.tree graph.tables delivery.deliver"
    lines = [f"import components.runtime.lineage.{module}" for module in modules.split()]
    heavy = "mlflow, pandas, numpy, torch, boto3"
    code = (
        f"import sys; {'; '.join(lines)}; import components.runtime.ledger.ledger;"
        f"print([name for name in '{heavy}'.split(', ') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
