"""Runs when a stage's task has finally failed, however it did: a killed one could not report anything itself."""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk.exceptions import AirflowException

from components.contract.errors import PosttrainError

log = logging.getLogger(__name__)
KILLED = "its task was killed before the stage was done"


def stage_failed(context: Any) -> None:
    """Report in one line why a stage failed, and make sure that the ledger records it.

    Airflow calls it in the task, or in the DAG processor if the task is gone.
    """
    from components.runtime.checkpoints.moves import asked, words
    from components.runtime.ledger.records import failure_key
    from pipelines.engines.airflow.tasks.stage_run import StageRun

    task = context["task"]
    try:
        run = StageRun(context, task.recipe, task.stage, log)
        key = failure_key(run.run_id, task.stage)
        if move := asked(run.store, run.run_id):
            log.warning("stage %s of run %s ended: %s", task.stage, run.run_id, words(move))
            return
        if run.store.get(key) is None:
            run.record_death(KILLED)
        failure = run.store.get(key) or {"error": KILLED}
    except (AirflowException, PosttrainError) as error:  # the store is unreachable: only Airflow's own log remains
        log.error("stage %s failed, and the ledger cannot be asked why: %s", task.stage, error)
        return
    log.error("stage %s of run %s failed: %s", task.stage, run.run_id, failure["error"])
