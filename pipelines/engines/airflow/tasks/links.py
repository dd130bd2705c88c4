"""Links from a task to its MLflow run. Airflow keeps them when the task ends."""

from __future__ import annotations

import os
from typing import Any

import attrs
from airflow.sdk import BaseOperatorLink

from pipelines.engines.airflow.names import STORE, run_id_of


@attrs.define
class MlflowRun(BaseOperatorLink):
    """The MLflow run of a stage, or of the whole run if the stage has none, such as a skipped one."""

    @property
    def name(self) -> str:
        """Return the button's label."""
        return "MLflow"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or "" if MLflow has no page."""
        from components.runtime.store import open_store
        from pipelines.engines.shared.mlflow_page import mlflow_address, run_address

        store = open_store(os.environ[STORE]) if os.environ.get(STORE) else None
        base = mlflow_address(store)
        if base is None or store is None:
            return base or ""
        dag_run = ti_key.get_template_context()["dag_run"]
        return run_address(store, base, run_id_of(operator.recipe, dag_run), getattr(operator, "stage", None))
