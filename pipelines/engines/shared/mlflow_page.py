"""Where people see a run, or a stage of it, in MLflow. For all engines."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.target import tracking_uri, without_credentials

if TYPE_CHECKING:
    from components.runtime.store import Store

URL = "POSTTRAIN_MLFLOW_URL"
"""Variable that says where people see MLflow, where that is not the tracking server itself."""
WAIT_SECONDS = 8.0
"""How long a task that has ended waits for its run in MLflow to be there: lineage comes a moment after the work."""
POLL_SECONDS = 0.5


def mlflow_address(store: Store | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return where people see MLflow: POSTTRAIN_MLFLOW_URL, else the tracking server if there is one."""
    given = environ.get(URL)
    if given or store is None:
        return given
    uri = tracking_uri(store)
    return without_credentials(uri).rstrip("/") if uri.startswith(("http://", "https://")) else None


def run_address(store: Store, base: str, run_id: str, stage: str | None, *, wait_seconds: float = WAIT_SECONDS) -> str:
    """Return the page of a stage, of its run, or of MLflow as a whole: the nearest that is known in time."""
    deadline = time.monotonic() + wait_seconds
    while True:
        places = _places(store, run_id)
        found = places.get(f"stage:{stage}" if stage else "run")
        if found or time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if "experiment" not in places:
        return base
    page = found or places["run"]
    return f"{base}/#/experiments/{places['experiment']}/runs/{page}?workflowType=machine_learning"


def _places(store: Store, run_id: str) -> dict[str, str]:
    try:
        return Cursor.load(store, run_id, tracking_uri(store)).places
    except PosttrainError:  # a link is a courtesy
        return {}
