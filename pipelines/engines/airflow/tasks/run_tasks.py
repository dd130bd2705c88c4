"""The first and the last task of every DAG: the run's beginning and its end in the ledger, and its report."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from components.contract.errors import InputError
from pipelines.engines.airflow.names import REFUSED, run_id_of
from pipelines.engines.airflow.tasks.links import MlflowRun


class PlanTask(BaseOperator):
    """Checks the run's request, plans it, and writes run and jobs to the store, where the stages read them."""

    ui_color = "#e6eefa"

    def __init__(self, *, path: str, **operator: Any) -> None:
        super().__init__(**operator)
        self.path = path

    def execute(self, context: Any) -> dict[str, Any]:
        """Begin or resume the run; raise AirflowFailException, which prevents a retry, for an invalid request."""
        from pipelines.engines.airflow.tasks.run_start import start_run

        try:
            return start_run(self.path, context, self.log)
        except InputError as error:
            context["ti"].xcom_push(REFUSED, str(error))
            raise AirflowFailException(str(error)) from None


class ReportTask(BaseOperator):
    """Ends the run in the ledger, makes its report and delivers its lineage to MLflow."""

    ui_color = "#e6eefa"
    operator_extra_links = (MlflowRun(),)

    def __init__(self, *, recipe: str, **operator: Any) -> None:
        super().__init__(**operator)
        self.recipe = recipe

    def execute(self, context: Any) -> None:
        """Run in the components' environment, which has the libraries that a report and MLflow need."""
        from components.runtime.system.code import ROOT
        from pipelines.engines.airflow.tasks.environment import stage_environment
        from pipelines.engines.airflow.tasks.stage_run import store_uri
        from pipelines.engines.shared.launcher import stage_python

        dag_run = context["dag_run"]
        command = [stage_python(), "-m", "pipelines.engines.shared.ending", "--store", store_uri()]
        command += ["--run", run_id_of(self.recipe, dag_run)]
        if dag_run.start_date is not None:
            command += ["--started", str(dag_run.start_date.timestamp())]
        command += ["--parent", str(os.getpid())]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=stage_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
        ) as process:
            assert process.stdout is not None
            last = ""
            for line in process.stdout:
                last = line.strip() or last
                self.log.info("%s", line.rstrip())
        if process.returncode:
            raise AirflowException(f"the report was not made: {last or f'exit code {process.returncode}'}")
