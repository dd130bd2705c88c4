"""The task that asks a person: a cached stage asks, and its answer decides about the alias."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from components.runtime.ledger.records import asked_key
from components.runtime.store import open_store
from pipelines.engines.kubeflow.approval import wait
from pipelines.engines.kubeflow.stage_run import StageRun
from pipelines.engines.shared.approvals import record_decision
from tests.support.championship import STAGE, Championship

PATIENCE_SECONDS = 60


@pytest.mark.parametrize("approved", [True, False])
def test_a_cached_stage_waits_for_its_answer(tmp_path: Path, approved: bool) -> None:
    run = Championship.prepare(open_store(str(tmp_path / "store")), "crowning-1", "kubeflow", tmp_path)
    stage = StageRun.find(run.store.uri, "crowning-1", STAGE)
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[bool] = pool.submit(wait, stage, poll_seconds=0.01)
        for _ in range(PATIENCE_SECONDS * 10):
            if waiting.done() or run.store.get(asked_key("crowning-1", STAGE)):
                break
            with suppress(TimeoutError):
                waiting.result(0.1)
        assert not waiting.done() and run.champion is None
        assert record_decision(run.store, "crowning-1", STAGE, approved=approved, by="ann")
        assert waiting.result(PATIENCE_SECONDS) is approved
    assert (stage.rejected(), run.champion) == (not approved, None), "the stage's own task registers it"
    assert stage.settled() is approved
    assert run.champion == (run.digest if approved else None)
