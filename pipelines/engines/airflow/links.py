"""Links from a task to what it did in MLflow. Airflow keeps them when the task ends."""

from __future__ import annotations

import os
import time
from typing import Any

import attrs
from airflow.sdk import BaseOperatorLink

from components.contract.errors import PosttrainError
from components.runtime.lineage.cursor import Cursor
from components.runtime.lineage.target import tracking_uri, without_credentials
from components.runtime.store import open_store
from pipelines.engines.airflow.names import MLFLOW_URL, STORE, run_id_of

WAIT_SECONDS = 8.0
"""How long a task that has ended waits for its run in MLflow to be there: lineage comes a moment after the work."""
POLL_SECONDS = 0.5


@attrs.define
class MlflowRun(BaseOperatorLink):
    """The MLflow run of a stage; of the whole run where the stage has none, such as a skipped one."""

    @property
    def name(self) -> str:
        """Return what the button says."""
        return "MLflow"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or nothing where MLflow has no page."""
        base = mlflow_address()
        if base is None:
            return ""
        dag_run = ti_key.get_template_context()["dag_run"]
        return run_address(base, run_id_of(operator.recipe, dag_run), getattr(operator, "stage", None))


def mlflow_address() -> str | None:
    """Return where people see MLflow: POSTTRAIN_MLFLOW_URL, else the tracking server if there is one."""
    store = os.environ.get(STORE)
    given = os.environ.get(MLFLOW_URL)
    if given or not store:
        return given
    uri = tracking_uri(open_store(store))
    return without_credentials(uri).rstrip("/") if uri.startswith(("http://", "https://")) else None


def run_address(base: str, run_id: str, stage: str | None, *, wait_seconds: float = WAIT_SECONDS) -> str:
    """Return the page of a stage, of its run, or of MLflow as a whole: the nearest that is known in time."""
    deadline = time.monotonic() + wait_seconds
    while True:
        places = _places(run_id)
        found = places.get(f"stage:{stage}" if stage else "run")
        if found or time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if "experiment" not in places:
        return base
    page = found or places["run"]
    return f"{base}/#/experiments/{places['experiment']}/runs/{page}?workflowType=machine_learning"


def _places(run_id: str) -> dict[str, str]:
    try:
        store = open_store(os.environ[STORE])
        return Cursor.load(store, run_id, tracking_uri(store)).places
    except PosttrainError:  # a link is a courtesy
        return {}
