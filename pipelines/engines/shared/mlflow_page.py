"""The MLflow page of a run or stage, for all engines."""

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
"""Variable with MLflow's address for people, if it is not the tracking server itself."""
WAIT_SECONDS = 8.0
"""How long an ended task waits for its MLflow run to exist: lineage arrives shortly after the work."""
POLL_SECONDS = 0.5


def mlflow_address(store: Store | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return MLflow's address for people: POSTTRAIN_MLFLOW_URL, else the tracking server if there is one."""
    given = environ.get(URL)
    if given or store is None:
        return given
    uri = tracking_uri(store)
    return without_credentials(uri).rstrip("/") if uri.startswith(("http://", "https://")) else None


def run_address(store: Store, base: str, run_id: str, stage: str | None, *, wait_seconds: float = WAIT_SECONDS) -> str:
    """Return the page of a stage, of its run, or of MLflow as a whole: the most specific one known in time."""
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
    return _address(base, places["experiment"], page)


def run_addresses(store: Store, base: str, run_id: str) -> dict[str, str]:
    """Return stage -> its page, with "" for the run as a whole; those that are known now."""
    places = _places(store, run_id)
    if "experiment" not in places:
        return {}
    found = {name.removeprefix("stage:"): page for name, page in places.items() if name.startswith("stage:")}
    found |= {"": places["run"]} if "run" in places else {}
    return {name: _address(base, places["experiment"], page) for name, page in found.items()}


def _address(base: str, experiment: str, page: str) -> str:
    return f"{base}/#/experiments/{experiment}/runs/{page}?workflowType=machine_learning"


def _places(store: Store, run_id: str) -> dict[str, str]:
    try:
        return Cursor.load(store, run_id, tracking_uri(store)).places
    except PosttrainError:  # a link is optional
        return {}
