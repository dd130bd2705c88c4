"""Names that a recipe and its runs have in Airflow. Imports no Airflow."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Protocol

TAG = "posttrain"
"""Tag of our DAGs, and group of our assets."""
PLAN = "run.plan"
REPORT = "run.report"
"""Ids of the first and the last task; a stage's name holds no dot."""
REFUSED = "refused"
"""Key under which the first task stores why it refused the run."""
TRACKED = ("Model", "Dataset")
"""Output types that are Airflow's assets."""
RUN_MACRO = "posttrain_run_id"
"""Template of our run id from Airflow's run, for a pod's manifest, which is built before a run exists."""
POOL_PREFIX = "posttrain-"
MLFLOW_PORT = "POSTTRAIN_MLFLOW_PORT"
"""Variable with the port on which a local Airflow serves MLflow."""
STORE = "POSTTRAIN_STORE"
"""Variable that names the store for the processes of Airflow."""


class DagRun(Protocol):
    """The fields used of Airflow's DAG run."""

    dag_id: str
    run_id: str
    run_after: datetime
    conf: dict[str, Any] | None


def dag_id(recipe: str) -> str:
    """Return the id of the DAG of a recipe by the name that `posttrain run` takes: `methods/x` becomes `methods.x`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", recipe.replace("/", "."))


def run_id_of(recipe: str, dag_run: DagRun) -> str:
    """Return the run id in our ledger: a pure function of Airflow's run, so that all tries of a task share it."""
    return run_id(recipe, dag_run.run_id, dag_run.run_after)


def run_id(recipe: str, airflow_run_id: str, run_after: datetime) -> str:
    """Return recipe, UTC time and eight digits of a hash; like every run id, it sorts by time."""
    digits = hashlib.sha256(f"{recipe}\0{airflow_run_id}".encode()).hexdigest()[:8]
    return f"{recipe}-{run_after.astimezone(UTC):%Y%m%d-%H%M%S}-{digits}"


def approval_task(stage: str) -> str:
    """Return the id of the task that asks a person before a stage."""
    return f"{stage}.approve"


def pool_name(pool: str) -> str:
    """Return the name of a pool of pools.yaml in an Airflow that may serve others, too."""
    return f"{POOL_PREFIX}{pool}"


def model_asset(name: str, alias: str) -> str:
    """Return the URI of the asset that changes whenever an alias of a registered model moves."""
    return f"posttrain://models/{name}@{alias}"


def output_asset(recipe: str, stage: str, port: str) -> str:
    """Return the asset URI of a stage's output."""
    return f"posttrain://recipes/{recipe}/{stage}/{port}"
