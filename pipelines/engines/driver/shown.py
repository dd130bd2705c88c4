"""A stage that is driven on a cluster, as the live view shows it."""

from __future__ import annotations

from components.runtime.store import Store
from pipelines.engines.driver.record import read
from pipelines.engines.driver.waiting import waiting
from pipelines.engines.shared.follower import RETRYING, RUNNING, StageState


def shown(store: Store, run_id: str, stage: str) -> StageState | None:
    """Return the state of a stage that a driver has begun and not ended; None for others."""
    record = read(store, run_id, stage)
    if not record.tries or record.final is not None:
        return None
    last = record.tries[-1]
    if last.cause is not None and last.ended is not None and record.due > last.ended:
        return StageState(RETRYING, len(record.causes), record.due - last.ended)
    return StageState(RUNNING, note=waiting(store, run_id, stage).text)
